"""What a User-Agent header says, in names that all languages share; nothing of it is repeated."""

# The first that the header has counts: browsers name those that they are made from, too.
_BROWSERS = {
    **{"Edg": "Edge", "OPR/": "Opera", "SamsungBrowser": "Samsung Internet", "FxiOS": "Firefox"},
    **{"Firefox": "Firefox", "CriOS": "Chrome", "Chrome": "Chrome", "Safari": "Safari"},
}
_SYSTEMS = {
    **{"iPhone": "iPhone", "iPad": "iPad", "Android": "Android", "Windows": "Windows"},
    **{"CrOS": "ChromeOS", "Mac OS": "macOS", "Linux": "Linux"},
}


def device(user_agent: str) -> str:
    """Return a browser and its system, such as `Firefox, Windows`; what is unknown is left out."""
    found = (
        next((name for part, name in names.items() if part in user_agent), "")
        for names in (_BROWSERS, _SYSTEMS)
    )
    return ", ".join(filter(None, found))
