"""Learning records as learners, teachers and other services read them: courses, lessons, days."""

import itertools
from datetime import date, datetime, timedelta

import pytest
from endpoints import UNKNOWN_ID
from helpers import bearer, failure, on_both, statements_of, success
from sqlalchemy import insert

from core import streaks
from core.clock import rfc3339
from core.locales import time_zone
from database import transaction
from models import Certificate, Course, Lesson

PATHS = ("courses", "courses/python", "progress", "progress/days", "certificates")


@pytest.fixture
def deliver(app):
    """Add a course to a user: its lessons as pairs of time and minutes."""

    def deliver(user, course_id, lessons, *done, name="Python for beginners"):
        key = {"user_id": user.id, "course_id": course_id}
        with app.app_context(), transaction() as session:
            session.add(Course(user_id=user.id, id=course_id, name=name, lessons=lessons))
            session.flush()
            for number, (at, minutes) in enumerate(done):
                lesson = {"completed_at": datetime.fromisoformat(at), "minutes": minutes}
                session.add(Lesson(**key, id=f"l{number}", name=f"Lesson {number}", **lesson))

    return deliver


@pytest.fixture
def read(client, auth):
    headers = auth.headers
    return lambda path, **q: client.get(f"/api/users/{path}", query_string=q, headers=headers)


@on_both
def test_courses_are_listed_by_their_last_activity(auth, deliver, read):
    deliver(auth.user, "untouched", 5)
    deliver(auth.user, "done", 2, ("2026-05-01T10:00:00Z", 30), ("2026-05-03T10:00:00Z", 20))
    deliver(auth.user, "begun", 3, ("2026-06-01T10:00:00Z", 45))
    shared = {"name": "Python for beginners"}
    assert success(read("courses"))["courses"] == [
        {
            **{**shared, "id": "begun", "lessons": 3, "completedLessons": 1, "minutes": 45},
            **{"completedAt": None, "lastActivityAt": "2026-06-01T10:00:00Z"},
        },
        {
            **{**shared, "id": "done", "lessons": 2, "completedLessons": 2, "minutes": 50},
            **{"completedAt": "2026-05-03T10:00:00Z", "lastActivityAt": "2026-05-03T10:00:00Z"},
        },
        {
            **{**shared, "id": "untouched", "lessons": 5, "completedLessons": 0, "minutes": 0},
            **{"completedAt": None, "lastActivityAt": None},
        },
    ]


@on_both
def test_course_shows_its_completed_lessons_oldest_first(auth, deliver, read):
    late, early = ("2026-05-03T10:00:00Z", 20), ("2026-05-01T10:00:00Z", 30)
    deliver(auth.user, "python", 1, late, early)
    (listed,) = success(read("courses"))["courses"]
    # It was delivered again with fewer lessons than were completed.
    assert (listed["completedLessons"], listed["minutes"]) == (1, 50)
    assert success(read("courses/python")) == {
        **listed,
        "completed": [
            {"id": "l1", "name": "Lesson 1", "completedAt": early[0], "minutes": 30},
            {"id": "l0", "name": "Lesson 0", "completedAt": late[0], "minutes": 20},
        ],
    }


@on_both
def test_course_without_lessons_can_be_read(auth, deliver, read):
    deliver(auth.user, "python", 4)
    (listed,) = success(read("courses"))["courses"]
    deliver(auth.user, "rust", 9)
    assert success(read("courses/python")) == {**listed, "completed": []}
    failure(read("courses/other"), 404, "not_found")


@on_both
def test_days_are_those_of_the_users_own_zone(client, auth, deliver, read):
    settings = {"timezone": "Pacific/Auckland"}
    success(client.put("/api/users/settings", json=settings, headers=auth.headers))
    lessons = [
        ("2026-04-04T10:59:59Z", 1),  # 23:59:59 on the 4th, summer time
        ("2026-04-04T11:00:00Z", 2),  # midnight
        ("2026-04-05T11:59:59Z", 4),  # 23:59:59 on the 5th, which has 25 hours
        ("2026-04-05T12:00:00Z", 8),
    ]
    deliver(auth.user, "python", 9, *lessons)
    data = success(read("progress/days", **{"from": "2026-04-04", "to": "2026-04-05"}))
    assert data == {
        "timezone": "Pacific/Auckland",
        "days": [
            {"date": "2026-04-04", "lessons": 1, "minutes": 1},
            {"date": "2026-04-05", "lessons": 2, "minutes": 6},
        ],
    }


@pytest.mark.parametrize(
    ("query", "dates"),
    [
        ({}, ["2025-06-11", "2026-06-11"]),
        ({"to": "2026-06-10"}, ["2025-06-10", "2025-06-11"]),
        ({"from": "2025-06-10"}, ["2025-06-10", "2025-06-11"]),
        ({"from": "2025-06-11"}, ["2025-06-11", "2026-06-11"]),
        ({"from": "2025-06-10", "to": "2025-06-10"}, ["2025-06-10"]),
        ({"from": "0001-01-01"}, []),
        ({"to": "0001-01-01"}, []),
        ({"from": "9999-12-31"}, []),
        ({"to": "9999-12-31"}, []),
    ],
    ids=str,
)
def test_days_are_366_unless_both_bounds_are_given(
    auth, deliver, read, monkeypatch, log_in, client, query, dates
):
    monkeypatch.setattr("core.clock.utcnow", lambda: datetime.fromisoformat("2026-06-11T12:00:00Z"))
    headers = log_in(auth.user).headers
    noons = [f"{day}T12:00:00Z" for day in ("2025-06-10", "2025-06-11", "2026-06-11")]
    deliver(auth.user, "python", 9, *((noon, 5) for noon in noons))
    response = client.get("/api/users/progress/days", query_string=query, headers=headers)
    assert [day["date"] for day in success(response)["days"]] == dates


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"from": "2026-01-02", "to": "2026-01-01"}, "from"),
        ({"from": "2025-01-01", "to": "2026-01-02"}, "to"),  # 367 days
        ({"from": "0001-01-01", "to": "9999-12-31"}, "to"),
        *[({"from": text}, "from") for text in ("20260101", "2026-1-1", "2026-02-30", "", "now")],
        ({"since": "2026-01-01"}, "since"),
    ],
    ids=str,
)
def test_days_between_impossible_bounds_are_refused(read, query, field):
    assert failure(read("progress/days", **query), 400, "invalid_request").keys() == {field}
    most = {"from": "2025-01-01", "to": "2026-01-01"}
    assert success(read("progress/days", **most))["days"] == []


@pytest.mark.parametrize("name", ["Pacific/Apia", "America/Sao_Paulo", "America/Havana", "UTC"])
def test_seconds_of_days_meet_without_a_gap(name):
    zone = time_zone(name)
    for year in (1965, 2011, 2017):
        days = [date(year, 1, 1) + timedelta(days=number) for number in range(365)]
        for day, following in itertools.pairwise(days):
            end = streaks.seconds(day, day, zone)[1]
            assert end + 1 == streaks.seconds(following, following, zone)[0]


@pytest.mark.parametrize("path", PATHS)
def test_teachers_and_keys_read_what_the_learner_reads(
    app, client, auth, deliver, read, make_user, make_key, log_in, path
):
    # Whatever the privacy settings, and also of an account that is not active any more.
    pupil = auth.user
    deliver(pupil, "python", 4, ("2026-05-01T10:00:00Z", 30))
    now = datetime.fromisoformat("2026-05-01T10:00:00Z")
    with app.app_context(), transaction() as session:
        made = {"user_id": pupil.id, "id": "c", "issued_at": now, "credential_url": ""}
        course = {"course_id": "x", "course_name": "X"}
        session.execute(insert(Certificate), {**made, **course, "holder": "X"})
    private = {"privacy": {"profileVisible": False, "progressVisible": False}}
    success(client.put("/api/users/settings", json=private, headers=auth.headers))
    own = success(read(path))
    assert own
    admin = log_in(make_user("head", role="admin")).headers
    success(client.patch(f"/api/users/{pupil.id}", json={"isActive": False}, headers=admin))
    teacher = log_in(make_user("teacher", role="instructor")).headers
    for headers in (teacher, admin, bearer(make_key("learning:read"))):
        assert success(client.get(f"/api/users/{pupil.id}/{path}", headers=headers)) == own


@pytest.mark.parametrize("path", PATHS)
def test_keys_do_not_read_the_records_of_admins(client, make_user, make_key, log_in, path):
    head = make_user("head", role="admin")
    key = bearer(make_key("learning:read"))
    failure(client.get(f"/api/users/{head.id}/{path}", headers=key), 403, "forbidden")
    failure(client.get(f"/api/users/{UNKNOWN_ID}/{path}", headers=key), 404, "user_not_found")
    response = client.get(f"/api/users/{head.id}/{path}", headers=log_in(head).headers)
    assert response.status_code == (404 if path == "courses/python" else 200)


@pytest.mark.parametrize(
    ("path", "queries"), [("courses", 1), ("courses/python", 2), ("progress/days", 1)]
)
def test_reading_takes_the_same_queries_however_many_lessons(
    app, auth, deliver, read, path, queries
):
    at = datetime.fromisoformat("2026-05-01T10:00:00Z")
    lessons = [(rfc3339(at - timedelta(hours=number)), 5) for number in range(300)]
    deliver(auth.user, "python", 300, *lessons)
    with statements_of(app) as statements:
        success(read(path))
    assert len(statements) == 1 + queries  # the guard's, and these
