// The list of time zones, in groups, so that typing the first letters of a city finds it.

// Names of cities that browsers still list, and today's. The service takes both.
const RENAMED = {
  "Africa/Asmera": "Africa/Asmara",
  "America/Coral_Harbour": "America/Atikokan",
  "America/Godthab": "America/Nuuk",
  "America/Mendoza": "America/Argentina/Mendoza",
  "Asia/Calcutta": "Asia/Kolkata",
  "Asia/Katmandu": "Asia/Kathmandu",
  "Asia/Rangoon": "Asia/Yangon",
  "Asia/Saigon": "Asia/Ho_Chi_Minh",
  "Atlantic/Faeroe": "Atlantic/Faroe",
  "Europe/Kiev": "Europe/Kyiv",
  "Pacific/Enderbury": "Pacific/Kanton",
  "Pacific/Ponape": "Pacific/Pohnpei",
  "Pacific/Truk": "Pacific/Chuuk",
};

const newName = (zone) => RENAMED[zone] ?? zone;

/** Choose a zone in the list; one that the list lacks, such as an old name, is added to it. */
export function choose(list, zone) {
  if (![...list.options].some(({ value }) => value === zone)) list.add(new Option(zone, zone));
  list.value = zone;
}

/** Choose the device's own zone. */
export const chooseHere = (list) =>
  choose(list, newName(Intl.DateTimeFormat().resolvedOptions().timeZone));

/** Fill an empty list, and choose the zone. */
export function listZones(list, zone) {
  for (const name of new Set(Intl.supportedValuesOf("timeZone").map(newName).sort())) {
    const [area, ...city] = name.split("/");
    if (list.lastElementChild?.label !== area) {
      list.append(Object.assign(document.createElement("optgroup"), { label: area }));
    }
    list.lastElementChild.append(new Option((city.join(", ") || name).replaceAll("_", " "), name));
  }
  for (const each of ["UTC", zone]) choose(list, each);
}
