// The section "settings".

async function show() {}

export const sections = { settings: show };
