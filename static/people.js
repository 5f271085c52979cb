// The section "people".

async function show() {}

export const sections = { people: show };
