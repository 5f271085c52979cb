// The section "security".

async function show() {}

export const sections = { security: show };
