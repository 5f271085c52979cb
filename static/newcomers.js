// The section "newcomers".

async function show() {}

export const sections = { newcomers: show };
