// The section "learning".

async function show() {}

export const sections = { learning: show };
