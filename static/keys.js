// The section "keys".

async function show() {}

export const sections = { keys: show };
