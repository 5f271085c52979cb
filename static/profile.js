// The section "profile".

async function show() {}

export const sections = { profile: show };
