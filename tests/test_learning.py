"""Learning records as the course system delivers them, and what learners see of them."""

import itertools
from datetime import datetime, timedelta

import pytest
from endpoints import UNKNOWN_ID
from helpers import failure, on_both, on_both_slowly, on_sqlite, race, rows, statements_of, success

from core.clock import rfc3339
from models import Achievement, Certificate, Course, Lesson

pytestmark = on_both_slowly

# When each story begins.
NOW = "2030-06-12T12:00:00Z"
TABLES = (Course, Lesson, Achievement, Certificate)
COURSE = {"name": "Python for beginners", "lessons": 3}
LESSON = {"name": "Loops", "minutes": 25}
ACHIEVEMENT = {"name": "First steps"}
CERTIFICATE = {"courseId": "python", "courseName": "Python for beginners"}
COUNTS = ("totalCourses", "completedCourses", "totalLessons", "completedLessons", "currentStreak")
NO_PROGRESS = {**dict.fromkeys(COUNTS, 0), "totalHours": 0.0, "achievements": []}


def at(text, **later):
    """Return a moment, or so much later, as the API writes it."""
    return rfc3339(datetime.fromisoformat(text) + timedelta(**later))


class School:
    """The course system, a learner, and what the one delivers of the other. Time stands still."""

    def __init__(self, app, make_user, log_in, monkeypatch):
        self._client = app.test_client
        self._log_in = log_in
        self._now = datetime.fromisoformat(NOW)
        monkeypatch.setattr("core.clock.utcnow", lambda: self._now)
        self._headers = {}
        self.learner = make_user("learner")
        self.system = make_user("course-system", role="instructor")

    def headers(self, user):
        if user.id not in self._headers:
            self._headers[user.id] = self._log_in(user).headers
        return self._headers[user.id]

    def later(self, **by):
        """Move the time on; tokens of before may have expired by then."""
        self._now += timedelta(**by)
        self._headers.clear()

    def deliver(self, method, path, body=None, *, of=None):
        """Call the API about a user's record; `of` is a user or what stands for the id."""
        path = f"/api/users/{getattr(of or self.learner, 'id', of)}/{path}"
        headers = self.headers(self.system)
        return self._client().open(path, method=method, json=body, headers=headers)

    def put(self, path, body, **options):
        return self.deliver("PUT", path, body, **options)

    def delete(self, path, **options):
        return self.deliver("DELETE", path, **options)

    def course(self, course_id="python", lessons=3, **options):
        success(self.put(f"courses/{course_id}", COURSE | {"lessons": lessons}, **options), 201)

    def lesson(self, lesson_id, course_id="python", *, of=None, **fields):
        path = f"courses/{course_id}/lessons/{lesson_id}"
        return success(self.put(path, LESSON | fields, of=of), 201)

    def get(self, path, user=None):
        user = user or self.learner
        return self._client().get(f"/api/users/{path}", headers=self.headers(user))

    def progress(self, user=None):
        return success(self.get("progress", user))

    def certificates(self, user=None):
        data = success(self.get("certificates", user))
        assert data.keys() == {"certificates"}
        return data["certificates"]

    def settings(self, changes, user=None):
        user = user or self.learner
        headers = self.headers(user)
        success(self._client().put("/api/users/settings", json=changes, headers=headers))


@pytest.fixture
def school(app, make_user, log_in, monkeypatch, caplog):
    yield School(app, make_user, log_in, monkeypatch)
    # It would be answered with 503, and tried again as any other.
    assert "deadlock" not in caplog.text


def patiently(call):
    """Repeat a call that a busy machine refused, as the course system does."""
    while (answer := call()).status_code == 503:
        failure(answer, 503, "unavailable")
    return answer


class Kind:
    """One of the four kinds of records: where it is put, what with, and what comes back."""

    def __init__(self, table, path, body, change, time=None, **answer):
        self.table = table
        self.path = path
        self.body = body
        self.change = change
        self.time = time
        self.answer = body | answer | ({time: NOW} if time else {})

    def __str__(self):
        return self.table.__name__

    def named(self, record_id):
        return f"{self.path.rpartition('/')[0]}/{record_id}"


LESSON_PATH = "courses/python/lessons/one"
CERTIFICATE_PATH = "certificates/c-1"
ANOTHER = {"courseId": "other", "courseName": "O"}
NOT_SHARED = {"shared": False, "verifyUrl": ""}
NO_MORE = {"expiresAt": None, "credentialUrl": "", "revokedAt": None}
AT_FIRST = NO_MORE | NOT_SHARED
KINDS = [
    Kind(Course, "courses/python", COURSE, {"name": "Z"}, id="python"),
    Kind(Lesson, LESSON_PATH, LESSON, {"minutes": 26}, "completedAt", id="one", courseId="python"),
    Kind(Achievement, "achievements/first", ACHIEVEMENT, {"name": "Z"}, "earnedAt", id="first"),
    Kind(Certificate, CERTIFICATE_PATH, CERTIFICATE, ANOTHER, "issuedAt", **AT_FIRST, id="c-1"),
]
TIMED = [kind for kind in KINDS if kind.time]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
# With a record that it belongs to, and without.
one_of_each_shape = pytest.mark.parametrize("kind", KINDS[:2], ids=str)
every_kind_with_a_time = pytest.mark.parametrize("kind", TIMED, ids=str)


def prepare(school, kind, **options):
    """Deliver the course that a lesson needs."""
    if kind.table is Lesson:
        school.course(**options)


def count(app, table):
    return len(rows(app, table))


# One record


@on_sqlite
def test_lesson_without_a_name_has_none_and_loses_an_earlier_one(school):
    school.course()
    school.lesson("one", name="Loops")
    assert success(school.put(LESSON_PATH, {"minutes": 5}))["name"] == ""
    (lesson,) = success(school.get("courses/python"))["completed"]
    assert lesson["name"] == ""


@every_kind
def test_record_is_created_once_replaced_and_removed(app, school, kind):
    prepare(school, kind)

    def put(body, status):
        response = school.put(kind.path, body)
        assert response.get_json()["message"]
        assert count(app, kind.table) == 1
        return success(response, status)

    assert put(kind.body, 201) == kind.answer
    assert put(kind.body, 200) == kind.answer
    assert put(kind.body | kind.change, 200) == kind.answer | kind.change
    for _ in range(2):  # it is no fault to do so again
        response = school.delete(kind.path)
        assert success(response) == {}
        assert response.get_json()["message"]
        assert count(app, kind.table) == 0
    assert put(kind.body, 201) == kind.answer


def test_course_takes_its_lessons_along_and_no_others(app, school):
    for course_id in ("python", "sql"):
        school.course(course_id)
        school.lesson("one", course_id)
        school.lesson("two", course_id)
    success(school.delete("courses/sql/lessons/one"))
    assert count(app, Lesson) == 3
    success(school.delete("courses/python"))
    assert [(lesson.course_id, lesson.id) for lesson in rows(app, Lesson)] == [("sql", "two")]
    school.course()
    assert school.progress()["completedLessons"] == 1  # they do not come back


# Times


@every_kind_with_a_time
def test_time_left_out_is_that_of_the_first_delivery(school, kind):
    prepare(school, kind)
    assert success(school.put(kind.path, kind.body), 201)[kind.time] == NOW
    school.later(days=3)
    assert success(school.put(kind.path, kind.body))[kind.time] == NOW
    explicit = {kind.time: "2030-06-01T00:00:00Z"}
    assert success(school.put(kind.path, kind.body | explicit)).items() >= explicit.items()
    school.later(days=3)
    assert success(school.put(kind.path, kind.body)).items() >= explicit.items()
    success(school.delete(kind.path))  # and the time goes with the record
    assert success(school.put(kind.path, kind.body), 201)[kind.time] == at(NOW, days=6)


@every_kind_with_a_time
@on_sqlite
def test_time_may_be_as_far_ahead_as_clocks_differ(school, kind):
    prepare(school, kind)
    sent = at(NOW, minutes=5)
    answer = school.put(kind.named("five"), kind.body | {kind.time: sent})
    assert success(answer, 201)[kind.time] == sent
    answer = school.put(kind.path, kind.body | {kind.time: at(NOW, minutes=5, seconds=1)})
    assert failure(answer, 400, "invalid_request").keys() == {kind.time}


def test_times_from_year_1_to_9999_are_kept(school):
    for issued, expires, kept in [
        ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ("1969-07-20T20:17:40Z", "2031-01-01T00:00:00+01:00", "2030-12-31T23:00:00Z"),
    ]:
        times = {"issuedAt": issued, "expiresAt": expires}
        assert school.put(CERTIFICATE_PATH, CERTIFICATE | times).status_code in (200, 201)
        (found,) = school.certificates()
        assert (found["issuedAt"], found["expiresAt"]) == (issued, kept)


# Who, and of whom


@every_kind
@on_sqlite
def test_records_of_nobody_are_refused(app, school, kind):
    malformed = school.learner.id + "0"
    for of, code in ((UNKNOWN_ID, "user_not_found"), (malformed, "not_found")):
        failure(school.put(kind.path, kind.body, of=of), 404, code)
        failure(school.delete(kind.path, of=of), 404, code)
    assert [count(app, table) for table in TABLES] == [0, 0, 0, 0]


def test_lesson_waits_for_its_course(app, school, make_user):
    other = make_user("other")
    school.course(of=other)  # which is none of the learner's
    school.course("Python")  # nor is this the same id
    assert success(school.delete(LESSON_PATH)) == {}
    answer = school.put(LESSON_PATH, LESSON)
    assert failure(answer, 404, "not_found") == {}
    assert "course" in answer.get_json()["message"]
    assert count(app, Lesson) == 0
    school.course()
    success(school.put(LESSON_PATH, LESSON), 201)
    success(school.put(LESSON_PATH, LESSON))
    success(school.delete("courses/python"))
    failure(school.put(LESSON_PATH, LESSON), 404, "not_found")


@on_sqlite
def test_records_of_an_inactive_user_are_kept(app, school, make_user):
    sleeper = make_user("sleeper", is_active=False)
    for kind in KINDS:
        success(school.put(kind.path, kind.body, of=sleeper), 201)
    success(school.delete("achievements/none", of=sleeper))
    assert [count(app, table) for table in TABLES] == [1, 1, 1, 1]


# Ids

LONG_ID = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.~"


@every_kind
def test_ids_may_be_of_all_the_allowed_signs_and_are_told_apart_by_case(app, school, kind):
    prepare(school, kind)
    kept = {LONG_ID, LONG_ID.swapcase(), "unit-1", "UNIT-1", "Unit-1", "-_", "a..b", "lessons"}
    for record_id in kept:
        path = kind.named(record_id.replace("a", "%61"))
        assert success(school.put(path, kind.body), 201)["id"] == record_id
        assert success(school.put(path, kind.body))["id"] == record_id
    success(school.delete(kind.named("Unit-1")))
    left = {row.id for row in rows(app, kind.table)} - {"python"}
    assert left == kept - {"Unit-1"}


def test_replaced_certificate_has_what_the_last_delivery_says(school):
    more = {"expiresAt": "2031-01-01T00:00:00Z", "credentialUrl": "https://example.org/1"}
    more["revokedAt"] = NOW
    whole = {"id": "c-1", "issuedAt": NOW, **CERTIFICATE, **NO_MORE, **NOT_SHARED}
    for status, sent, kept in (
        (201, more, more),
        (200, more | {"credentialUrl": ""}, more | {"credentialUrl": ""}),
        (200, more, more),
        (200, {}, NO_MORE | {"revokedAt": NOW}),
        (200, {"revokedAt": None}, NO_MORE),
    ):
        assert success(school.put(CERTIFICATE_PATH, CERTIFICATE | sent), status) == whole | kept
    assert school.certificates() == [whole | NO_MORE]


# At once, again, and in any order


@on_both
@one_of_each_shape
def test_putting_and_removing_at_once_ends_in_one_of_the_two(app, school, kind):
    prepare(school, kind)
    school.headers(school.system)

    def act(number):
        method, body = ("DELETE", None) if number % 2 else ("PUT", kind.body)
        return [patiently(lambda: school.deliver(method, kind.path, body)) for _ in range(3)]

    for answer in itertools.chain(*race(act)):
        success(answer, 201 if answer.status_code == 201 else 200)
    assert count(app, kind.table) in (0, 1)
    success(school.delete(kind.path))
    success(school.put(kind.path, kind.body), 201)


@on_both
def test_lessons_and_the_removal_of_their_course_at_once_leave_no_orphans(app, school):
    school.course()
    school.headers(school.system)

    def act(number):
        if number % 4 == 0:
            return [patiently(lambda: school.delete("courses/python"))]
        if number % 4 == 1:
            return [patiently(lambda: school.put("courses/python", COURSE)) for _ in range(3)]
        path = f"courses/python/lessons/{number}"
        return [
            patiently(lambda: school.put(path, LESSON)),
            patiently(lambda: school.delete(path)),
            patiently(lambda: school.put(path, LESSON)),
        ]

    for answer in itertools.chain(*race(act)):
        if answer.status_code == 404:
            failure(answer, 404, "not_found")
        else:
            success(answer, 201 if answer.status_code == 201 else 200)
    success(school.delete("courses/python"))
    assert count(app, Lesson) == 0


# Progress


def test_progress_adds_up(school):
    for course_id, lessons in (("python", 2), ("sql", 3), ("go", 1)):
        school.course(course_id, lessons=lessons)
    for course_id, minutes in (("python", (30, 45)), ("sql", (0, 1440))):
        for number in (0, 1):
            school.lesson(f"{number}", course_id, minutes=minutes[number])
    success(school.put("achievements/first", ACHIEVEMENT), 201)
    sums = dict(zip(COUNTS, (3, 1, 6, 4, 1), strict=True))
    earned = [{"id": "first", "name": "First steps", "earnedAt": NOW}]
    assert school.progress() == sums | {"totalHours": 25.2, "achievements": earned}  # 25.25


def test_course_is_completed_with_its_last_lesson_and_may_grow_and_shrink(school):
    school.course(lessons=2)
    school.lesson("1")
    success(school.put("courses/python/lessons/1", LESSON))  # again: no other lesson
    assert school.progress()["completedCourses"] == 0
    school.lesson("2")
    assert school.progress()["completedCourses"] == 1
    for lessons, completed in ((3, 0), (10_000, 0), (2, 1), (1, 1)):
        success(school.put("courses/python", COURSE | {"lessons": lessons}))
        found = school.progress()
        assert (found["totalLessons"], found["completedCourses"]) == (lessons, completed)
        assert found["completedLessons"] == min(2, lessons)


@pytest.mark.parametrize(
    ("minutes", "hours"),
    # Rounded at the end, and only there.
    [([2], 0.0), ([60], 1.0), ([100], 1.7), ([1440] * 3, 72.0), ([1] * 6, 0.1)],
    ids=str,
)
def test_hours_have_one_decimal(school, minutes, hours):
    school.course()
    for number, each in enumerate(minutes):
        school.lesson(str(number), minutes=each)
    assert repr(school.progress()["totalHours"]) == repr(hours)  # also a whole one is a float


def test_achievements_are_newest_first(school):
    times = {"b": 3, "a": 1, "d": 2, "c": 3, "e": 0}
    bodies = {key: {"name": "A", "earnedAt": at(NOW, days=-days)} for key, days in times.items()}
    for record_id, body in bodies.items():
        success(school.put(f"achievements/{record_id}", body), 201)
    found = [{"id": record_id, **bodies[record_id]} for record_id in "eadcb"]
    assert school.progress() == NO_PROGRESS | {"achievements": found}


def test_certificates_are_newest_first_and_whole(school):
    link = {"credentialUrl": "https://example.org/", "courseId": "C"}
    bodies = {
        "b": CERTIFICATE | {"issuedAt": at(NOW, days=-3)},
        "a": CERTIFICATE | {"issuedAt": at(NOW, days=-1), "expiresAt": at(NOW, days=99)},
        "c": CERTIFICATE | {"issuedAt": at(NOW, days=-2), **link},
        "d": CERTIFICATE | {"issuedAt": at(NOW, days=-3), "courseName": "D"},
    }
    for record_id, body in bodies.items():
        success(school.put(f"certificates/{record_id}", body), 201)
    assert school.certificates() == [
        {"id": each, **NO_MORE, **NOT_SHARED, **bodies[each]} for each in "acdb"
    ]


def test_streak_goes_by_the_time_zone_of_the_learner(school):
    school.course()
    # It is noon in UTC: two o'clock of the next day in Kiritimati.
    school.lesson("1", completedAt="2030-06-11T10:30:00Z")
    school.lesson("2", completedAt="2030-06-12T09:30:00Z")
    school.settings({"timezone": "Pacific/Kiritimati"}, school.system)  # which does not matter
    # In Kiritimati both are on the 12th, which was yesterday.
    for zone, streak in {"UTC": 2, "Pacific/Kiritimati": 1}.items():
        school.settings({"timezone": zone})
        assert school.progress()["currentStreak"] == streak
        seen = success(school.get(school.learner.id, school.system))
        assert seen["progress"]["currentStreak"] == streak


# What others see


@on_sqlite
def test_progress_is_shown_as_the_settings_and_roles_say(school, make_user):
    for kind in KINDS:
        success(school.put(kind.path, kind.body), 201)
    classmate, admin = make_user("classmate"), make_user("headmaster", role="admin")
    path = school.learner.id
    expected = school.progress()
    assert expected != NO_PROGRESS
    for visible in (True, False):
        # The settings of the viewer do not matter.
        school.settings({"privacy": {"progressVisible": not visible}}, classmate)
        school.settings({"privacy": {"progressVisible": visible}})
        for viewer in (school.learner, school.system, admin):
            assert success(school.get(path, viewer))["progress"] == expected
        seen = success(school.get(path, classmate))
        assert seen.get("progress") == (expected if visible else None)
        assert ("progress" in seen) == visible


@on_sqlite
def test_reading_takes_no_more_statements_however_much_there_is(app, school, make_user):
    classmate = make_user("classmate")

    def cost(path, viewer):
        school.headers(viewer)
        with statements_of(app) as sent:
            seen = success(school.get(path, viewer))
        return len(sent), "progress" in seen

    for records in (1, 5):
        learner = make_user(f"learner-{records}")
        for kind in KINDS:
            prepare(school, kind, of=learner)
            for number in range(records):
                success(school.put(kind.named(f"n{number}"), kind.body, of=learner), 201)
        # The guard's, and then one for each table that is read.
        expected = {"profile": 1, "settings": 1, "progress": 4, "certificates": 2}
        assert {path: cost(path, learner)[0] for path in expected} == expected
        for visible in (True, False):
            school.settings({"privacy": {"progressVisible": visible}}, learner)
            for viewer in (learner, school.system, classmate):
                is_shown = visible or viewer is not classmate
                assert cost(learner.id, viewer) == (5 if is_shown else 2, is_shown)
