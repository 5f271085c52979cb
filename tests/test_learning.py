"""Learning records as the course system delivers them, and what learners see of them."""

import itertools
from datetime import datetime, timedelta

import pytest
from endpoints import UNKNOWN_ID
from helpers import failure, on_one_database, race, rows, statements_of, success
from sqlalchemy import delete, insert, update

from core.clock import rfc3339
from database import transaction
from models import Achievement, Certificate, Course, Lesson, User

# When each story begins.
NOW = "2030-06-12T12:00:00Z"
TABLES = (Course, Lesson, Achievement, Certificate)
COURSE = {"name": "Python for beginners", "lessons": 3}
LESSON = {"minutes": 25}
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

    def deliver(self, method, path, body=None, *, of=None, by=None):
        """Call the API about a user's record; `of` is a user or what stands for the id."""
        user_id = getattr(of or self.learner, "id", of)
        return self._client().open(
            f"/api/users/{user_id}/{path}",
            method=method,
            json=body,
            headers=self.headers(by or self.system),
        )

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
    """Call again what a busy machine had no time for, as the course system does."""
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
NO_MORE = {"expiresAt": None, "credentialUrl": ""}
KINDS = [
    Kind(Course, "courses/python", COURSE, {"name": "Z"}, id="python"),
    Kind(Lesson, LESSON_PATH, LESSON, {"minutes": 26}, "completedAt", id="one", courseId="python"),
    Kind(Achievement, "achievements/first", ACHIEVEMENT, {"name": "Z"}, "earnedAt", id="first"),
    Kind(Certificate, CERTIFICATE_PATH, CERTIFICATE, ANOTHER, "issuedAt", **NO_MORE, id="c-1"),
]
TIMED = [kind for kind in KINDS if kind.time]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_kind_with_a_time = pytest.mark.parametrize("kind", TIMED, ids=str)


def prepare(school, kind, **options):
    """Deliver the course that a lesson needs."""
    if kind.table is Lesson:
        school.course(**options)


def count(app, table, **columns):
    return len(rows(app, table, **columns))


# One record


@every_kind
def test_record_is_created_once_and_replaced_from_then_on(app, school, kind):
    prepare(school, kind)
    first = school.put(kind.path, kind.body)
    assert success(first, 201) == kind.answer
    assert first.get_json()["message"]
    again = school.put(kind.path, kind.body)
    assert success(again) == kind.answer
    assert again.get_json()["message"]
    assert success(school.put(kind.path, kind.body | kind.change)) == kind.answer | kind.change
    assert count(app, kind.table) == 1


@every_kind
def test_record_is_removed_and_it_is_no_fault_to_do_so_again(app, school, kind):
    prepare(school, kind)
    success(school.put(kind.path, kind.body), 201)
    for _ in range(2):
        answer = school.delete(kind.path)
        assert success(answer) == {}
        assert answer.get_json()["message"]
        assert count(app, kind.table) == 0
    success(school.put(kind.path, kind.body), 201)


@every_kind
def test_one_record_is_changed_and_removed_and_no_other(app, school, make_user, kind):
    other = make_user("other")
    for of in (school.learner, other):
        prepare(school, kind, of=of)
        for record_id in ("a", "b"):
            success(school.put(kind.named(record_id), kind.body, of=of), 201)
    before = set(rows(app, kind.table))
    success(school.put(kind.named("a"), kind.body | kind.change))
    changed = before ^ set(rows(app, kind.table))
    assert {(row.user_id, row.id) for row in changed} == {(school.learner.id, "a")}
    before = set(rows(app, kind.table))
    success(school.delete(kind.named("a")))
    (removed,) = before - set(rows(app, kind.table))
    assert (removed.user_id, removed.id) == (school.learner.id, "a")


def test_same_lesson_id_in_two_courses_is_two_lessons(app, school):
    for course_id in ("python", "sql"):
        school.course(course_id)
        school.lesson("one", course_id)
    success(school.delete("courses/sql/lessons/one"))
    assert [row.course_id for row in rows(app, Lesson)] == ["python"]


def test_course_takes_its_lessons_along(app, school, make_user):
    other = make_user("other")
    for of in (None, other):
        for course_id in ("python", "sql"):
            school.course(course_id, of=of)
            school.lesson("one", course_id, of=of)
            school.lesson("two", course_id, of=of)
    success(school.delete("courses/python"))
    assert count(app, Lesson, user_id=school.learner.id, course_id="python") == 0
    assert count(app, Lesson, user_id=school.learner.id, course_id="sql") == 2
    assert count(app, Lesson, user_id=other.id) == 4
    school.course()
    assert school.progress()["completedLessons"] == 2  # they do not come back


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
def test_time_may_have_any_offset_and_any_past(school, kind):
    prepare(school, kind)
    for sent, kept in {
        "2030-06-12T17:45:00+05:45": "2030-06-12T12:00:00Z",
        "2030-06-01t00:00:00.999999z": "2030-06-01T00:00:00Z",
        " 1969-07-20T20:17:40Z ": "1969-07-20T20:17:40Z",
        "0001-01-01T00:00:00Z": "0001-01-01T00:00:00Z",
    }.items():
        answer = school.put(kind.path, kind.body | {kind.time: sent})
        assert success(answer, answer.status_code)[kind.time] == kept


@every_kind_with_a_time
def test_time_may_be_as_far_ahead_as_clocks_differ(school, kind):
    prepare(school, kind)
    sent = at(NOW, minutes=5)
    answer = school.put(kind.named("five"), kind.body | {kind.time: sent})
    assert success(answer, 201)[kind.time] == sent
    for ahead in ({"minutes": 5, "seconds": 1}, {"minutes": 6}, {"days": 30_000}):
        answer = school.put(kind.path, kind.body | {kind.time: at(NOW, **ahead)})
        assert failure(answer, 400, "invalid_request").keys() == {kind.time}
    school.later(minutes=2)
    answer = school.put(kind.path, kind.body | {kind.time: at(NOW, minutes=6)})
    assert success(answer, 201)[kind.time] == at(NOW, minutes=6)


NO_TIMES = [
    *("", "yesterday", "2030-06-01", "2030-06-01T00:00:00", "2030-06-01T00:00:00Z\x00"),
    *("0001-01-01T00:00:00+00:01", "9" * 10_000, None, 1907366400, True, ["2030-06-01T00:00:00Z"]),
]


@pytest.mark.parametrize(
    ("kind", "field"), [*((kind, kind.time) for kind in TIMED), (KINDS[3], "expiresAt")], ids=str
)
def test_what_is_no_time_is_refused(app, school, kind, field):
    prepare(school, kind)
    for value in NO_TIMES:
        answer = school.put(kind.path, kind.body | {field: value})
        assert failure(answer, 400, "invalid_request").keys() == {field}, value
    assert count(app, kind.table) == 0


def test_certificate_may_expire_in_the_future_or_the_past(school):
    for sent, kept in [
        ("2031-01-01T00:00:00+01:00", "2030-12-31T23:00:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
    ]:
        answer = school.put(CERTIFICATE_PATH, CERTIFICATE | {"expiresAt": sent})
        assert answer.get_json()["data"]["expiresAt"] == kept
        assert [one["expiresAt"] for one in school.certificates()] == [kept]


# Who, and of whom


@every_kind
def test_records_of_nobody_are_refused(app, school, make_user, kind):
    gone = make_user("gone")
    with app.app_context(), transaction() as session:
        session.execute(delete(User).where(User.id == gone.id))
    learner = school.learner.id
    odd = [learner + "0", learner.replace("-", ""), f"urn:uuid:{learner}"]
    odd += [learner + "%0A", learner + "%27%20OR%201=1--", "nobody", "x" * 300]
    codes = {UNKNOWN_ID: "user_not_found", gone.id: "user_not_found"}
    for of in (UNKNOWN_ID, gone.id, *odd):
        code = codes.get(of, "not_found")
        failure(school.put(kind.path, kind.body, of=of), 404, code)
        failure(school.delete(kind.path, of=of), 404, code)
    assert [count(app, table) for table in TABLES] == [0, 0, 0, 0]


def test_lesson_waits_for_its_course(app, school, make_user):
    other = make_user("other")
    school.course(of=other)  # which is none of the learner's
    school.course("sql")
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


def test_records_of_an_inactive_user_are_kept(app, school, make_user):
    sleeper = make_user("sleeper", is_active=False)
    for kind in KINDS:
        success(school.put(kind.path, kind.body, of=sleeper), 201)
        success(school.put(kind.path, kind.body, of=sleeper))
    success(school.delete("achievements/none", of=sleeper))
    with app.app_context(), transaction() as session:
        session.execute(update(User).where(User.id == sleeper.id).values(is_active=True))
    found = school.progress(sleeper)
    assert (found["completedLessons"], len(found["achievements"])) == (1, 1)
    assert len(school.certificates(sleeper)) == 1


# Ids

# The last two are an A and a digit, but not those of ASCII.
NO_IDS = ["a%20b", "%20a", "a+b", "%00", "a%0A", "%0Aa", "a%25", "%252F", "a%2Fb", "%2Fa%2F", "a:b"]
NO_IDS += ["a@b", "a,b", "a;b", "a=b", "a'b", "a%22b", "a*", "a!", "(a)", "a%5Cb", "%C3%BC", "%FF"]
NO_IDS += ["a" * 65, "a" * 5000, "%EF%BC%A1", "%D9%A1"]


@on_one_database
@pytest.mark.parametrize("record_id", NO_IDS, ids=lambda record_id: record_id[:20])
def test_id_with_other_signs_is_refused(app, school, record_id):
    paths = [(f"courses/{record_id}", "courseId"), (f"courses/{record_id}/lessons/one", "courseId")]
    paths += [(f"courses/python/lessons/{record_id}", "lessonId")]
    paths += [(f"achievements/{record_id}", "achievementId")]
    paths += [(f"certificates/{record_id}", "certificateId")]
    for path, name in paths:
        for method in ("PUT", "DELETE"):
            answer = school.deliver(method, path, {})
            assert failure(answer, 400, "invalid_request").keys() == {name}
    assert [count(app, table) for table in TABLES] == [0, 0, 0, 0]


def test_both_ids_of_a_lesson_are_named_when_both_are_wrong(school):
    answer = school.put("courses/a%20b/lessons/c%20d", LESSON)
    assert failure(answer, 400, "invalid_request").keys() == {"courseId", "lessonId"}


LONG_ID = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.~"
OTHER_IDS = ["_" * 64, "-" * 64, "~", "0", "-", "_", "a..b", "%41bc", "null", "lessons"]


def test_ids_may_be_of_all_the_allowed_signs(app, school):
    assert len(LONG_ID) == 64
    for record_id in (LONG_ID, *OTHER_IDS):
        kept = record_id.replace("%41", "A")
        for kind in (KINDS[0], KINDS[2], KINDS[3]):
            path = kind.named(record_id)
            assert success(school.put(path, kind.body), 201)["id"] == kept
            assert success(school.put(path, kind.body))["id"] == kept
        path = f"courses/{record_id}/lessons/{record_id}"
        lesson = success(school.put(path, LESSON), 201)
        assert (lesson["id"], lesson["courseId"]) == (kept, kept)
        assert success(school.put(path, LESSON)) == lesson
    everything = 1 + len(OTHER_IDS)
    assert [count(app, table) for table in TABLES] == [everything] * 4
    for record_id in (LONG_ID, *OTHER_IDS):
        for kind in (KINDS[0], KINDS[2], KINDS[3]):
            success(school.delete(kind.named(record_id)))
    assert [count(app, table) for table in TABLES] == [0] * 4


@every_kind
def test_ids_are_told_apart_by_case(app, school, kind):
    prepare(school, kind)
    for record_id in ("unit-1", "UNIT-1", "Unit-1"):
        success(school.put(kind.named(record_id), kind.body), 201)
    success(school.delete(kind.named("Unit-1")))
    left = {row.id for row in rows(app, kind.table)} - {"python"}
    assert left == {"unit-1", "UNIT-1"}


def test_course_of_a_lesson_is_told_apart_by_case(school):
    school.course("Python")
    failure(school.put(LESSON_PATH, LESSON), 404, "not_found")


# Values


def taken(school, kind, field, value):
    """Deliver a record with this value in it; return whether it was taken, and check what is."""
    answer = school.put(kind.path, kind.body | {field: value})
    if answer.status_code == 400:
        assert failure(answer, 400, "invalid_request").keys() == {field}, value
        return False
    expected = value.strip() if isinstance(value, str) else value
    assert success(answer, answer.status_code)[field] == expected, value
    return True


NO_NUMBERS = [None, True, False, 1.5, 1.0, 5e3, "5", "", [5], {}, 2**31, 2**63, -(2**64), 10**40]


LINK = "https://example.org/"
NAMES = [
    [
        *("N", "n" * 200, " \u3000trimmed\u2003 ", "  " + "n" * 200 + "\n", "\U0001f600" * 200),
        "Ünïcödé \u200d <b>'\"; DROP TABLE users; --",
    ],
    ["", " ", "\u3000\n\t", "n" * 201, "\U0001f600" * 201, "a\tb", "a\x00", "\u202ea"],
]
BAD_LINKS = ["javascript:alert(1)", "example.org", "https://user@example.org/", f"{LINK}\x00"]
BAD_LINKS.append(LINK.ljust(201, "a"))


@pytest.mark.parametrize(
    ("kind", "field", "good", "bad"),
    [
        (KINDS[0], "lessons", [1, 2, 9_999, 10_000], [0, -1, 10_001, *NO_NUMBERS]),
        (KINDS[1], "minutes", [0, 1, 1439, 1440], [-1, 1441, *NO_NUMBERS]),
        (KINDS[0], "name", *NAMES),
        (KINDS[2], "name", *NAMES),
        (KINDS[3], "courseName", *NAMES),
        (
            *(KINDS[3], "courseId", [LONG_ID, "a", " a "]),
            ["", "a b", "a\n b", "a/b", "a%", "ä", "a" * 65, "a\x00", None, 1, [], {}],
        ),
        (
            *(KINDS[3], "credentialUrl"),
            [f"{LINK}1?of=me#top", f" {LINK} ", "", "   ", LINK.ljust(200, "a")],
            BAD_LINKS,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_field_takes_its_values_and_no_others(school, kind, field, good, bad):
    prepare(school, kind)
    assert all(taken(school, kind, field, value) for value in good)
    assert not any(taken(school, kind, field, value) for value in bad)


def test_replaced_certificate_has_what_the_last_delivery_says(school):
    more = {"expiresAt": "2031-01-01T00:00:00Z", "credentialUrl": "https://example.org/1"}
    whole = {"id": "c-1", "issuedAt": NOW, **CERTIFICATE}
    for status, sent, kept in (
        (201, more, more),
        (200, more | {"credentialUrl": ""}, more | {"credentialUrl": ""}),
        (200, more, more),
        (200, {}, NO_MORE),
    ):
        assert success(school.put(CERTIFICATE_PATH, CERTIFICATE | sent), status) == whole | kept
    assert school.certificates() == [whole | NO_MORE]


# At once, again, and in any order


@every_kind
def test_equal_deliveries_at_once_make_one_record(app, school, kind):
    prepare(school, kind)
    school.headers(school.system)
    answers = race(lambda _: patiently(lambda: school.put(kind.path, kind.body)))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(201), statuses.count(200)) == (1, 15), statuses
    (data,) = {str(answer.get_json()["data"]) for answer in answers}
    assert str(kind.answer[kind.time] if kind.time else "python") in data
    assert count(app, kind.table) == 1


@every_kind
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


def test_who_has_not_begun_has_no_progress(school):
    assert school.progress() == NO_PROGRESS
    assert school.certificates() == []
    school.course()  # and has now enrolled, for what that is worth
    assert school.progress() == NO_PROGRESS | {"totalCourses": 1, "totalLessons": 3}


def test_progress_adds_up(school):
    for course_id, lessons in (("python", 2), ("sql", 3), ("go", 1)):
        school.course(course_id, lessons=lessons)
    for course_id, minutes in (("python", (30, 45)), ("sql", (0, 1440))):
        for number in (0, 1):
            school.lesson(f"{number}", course_id, minutes=minutes[number])
    success(school.put("achievements/first", ACHIEVEMENT), 201)
    assert school.progress() == {
        "totalCourses": 3,
        "completedCourses": 1,
        "totalLessons": 6,
        "completedLessons": 4,
        "totalHours": 25.2,  # 25.25
        "achievements": [{"id": "first", "name": "First steps", "earnedAt": NOW}],
        "currentStreak": 1,
    }


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
    for number in (1, 2):
        success(school.delete(f"courses/python/lessons/{number}"))
    assert school.progress()["completedCourses"] == 0


@pytest.mark.parametrize(
    ("minutes", "hours"),
    [
        *(([2], 0.0), ([4], 0.1), ([59], 1.0), ([60], 1.0), ([100], 1.7), ([1440] * 3, 72.0)),
        *(([2, 2], 0.1), ([1] * 6, 0.1)),  # rounded at the end, and only there
    ],
)
def test_hours_have_one_decimal(school, minutes, hours):
    school.course()
    for number, each in enumerate(minutes):
        school.lesson(str(number), minutes=each)
    assert repr(school.progress()["totalHours"]) == repr(hours)  # also a whole one is a float


def test_replaced_lesson_counts_as_it_is_now(school):
    school.course()
    school.lesson("1", minutes=60, completedAt="2030-06-12T08:00:00Z")
    again = {"minutes": 90, "completedAt": "2030-06-01T08:00:00Z"}
    success(school.put("courses/python/lessons/1", again))
    found = school.progress()
    assert (found["completedLessons"], found["totalHours"], found["currentStreak"]) == (1, 1.5, 0)


def test_achievements_are_newest_first(school):
    times = {"b": 3, "a": 1, "d": 2, "c": 3, "e": 0}
    bodies = {key: {"name": "A", "earnedAt": at(NOW, days=-days)} for key, days in times.items()}
    for record_id, body in bodies.items():
        success(school.put(f"achievements/{record_id}", body), 201)
    found = school.progress()["achievements"]
    assert found == [{"id": record_id, **bodies[record_id]} for record_id in "eadcb"]
    assert school.progress() == NO_PROGRESS | {"achievements": found}


def test_certificates_are_newest_first_and_whole(school):
    bodies = {
        "b": CERTIFICATE | {"issuedAt": at(NOW, days=-3)},
        "a": CERTIFICATE | {"issuedAt": at(NOW, days=-1), "expiresAt": at(NOW, days=99)},
        "c": CERTIFICATE | {"issuedAt": at(NOW, days=-2), "credentialUrl": LINK, "courseId": "C"},
        "d": CERTIFICATE | {"issuedAt": at(NOW, days=-3), "courseName": "D"},
    }
    for record_id, body in bodies.items():
        success(school.put(f"certificates/{record_id}", body), 201)
    assert school.certificates() == [
        {"id": record_id, **NO_MORE, **bodies[record_id]} for record_id in ("a", "c", "d", "b")
    ]


def test_streak_grows_day_by_day_and_breaks_after_a_day_without(school):
    school.course(lessons=10)
    for day in range(1, 4):
        school.lesson(str(day))
        assert school.progress()["currentStreak"] == day
        school.later(days=1)
    assert school.progress()["currentStreak"] == 3  # there is still time today
    school.later(days=1)
    assert school.progress()["currentStreak"] == 0
    school.lesson("4")
    assert school.progress()["currentStreak"] == 1


def test_streak_goes_by_the_time_zone_of_the_learner(school):
    school.course()
    # It is noon in UTC: two o'clock of the next day in Kiritimati, one in the night in Pago Pago.
    school.lesson("1", completedAt="2030-06-11T10:30:00Z")
    school.lesson("2", completedAt="2030-06-12T09:30:00Z")
    school.settings({"timezone": "Pacific/Kiritimati"}, school.system)  # which does not matter
    for zone, streak in {
        "UTC": 2,
        "Pacific/Kiritimati": 1,  # both on the 12th, which was yesterday
        "Pacific/Pago_Pago": 2,  # on the 10th and on the 11th, which was yesterday
        "Asia/Kathmandu": 2,
    }.items():
        school.settings({"timezone": zone})
        assert school.progress()["currentStreak"] == streak
        seen = success(school.get(school.learner.id, school.system))
        assert seen["progress"]["currentStreak"] == streak


def test_learners_see_their_own_records_only(school, make_user):
    other = make_user("other")
    for kind in KINDS:
        success(school.put(kind.path, kind.body), 201)
    assert school.progress(other) == NO_PROGRESS
    assert school.certificates(other) == []
    assert school.progress(school.system) == NO_PROGRESS
    # Nor do records of the same ids get mixed up.
    success(school.put("courses/python", COURSE | {"lessons": 1}, of=other), 201)
    success(school.put(LESSON_PATH, {"minutes": 600}, of=other), 201)
    expected = {**dict.fromkeys(COUNTS, 1), "totalHours": 10.0, "achievements": []}
    assert school.progress(other) == expected
    mine = school.progress()
    assert (mine["completedCourses"], mine["totalLessons"], mine["totalHours"]) == (0, 3, 0.4)


# What others see


def test_progress_is_shown_as_the_settings_and_roles_say(school, make_user):
    for kind in KINDS:
        success(school.put(kind.path, kind.body), 201)
    classmate, admin = make_user("classmate"), make_user("headmaster", role="admin")
    path = school.learner.id
    expected = school.progress()
    assert expected != NO_PROGRESS
    for visible in (False, True):
        school.settings({"privacy": {"progressVisible": visible}})
        for viewer in (school.learner, school.system, admin):
            assert success(school.get(path, viewer))["progress"] == expected
        seen = success(school.get(path, classmate))
        assert seen.get("progress") == (expected if visible else None)
        assert ("progress" in seen) == visible
    # The settings of the one who looks do not matter.
    school.settings({"privacy": {"progressVisible": True}}, classmate)
    school.settings({"privacy": {"progressVisible": False}})
    assert "progress" not in success(school.get(path, classmate))


def test_progress_of_a_private_profile_is_private(school, make_user):
    success(school.put("achievements/first", ACHIEVEMENT), 201)
    school.settings({"privacy": {"profileVisible": False, "progressVisible": True}})
    answer = school.get(school.learner.id, make_user("classmate"))
    failure(answer, 403, "profile_private")
    assert "First steps" not in answer.text
    for viewer in (school.learner, school.system):
        seen = success(school.get(school.learner.id, viewer))
        assert seen["progress"] == school.progress()


# Many records


def fill(app, user, *, courses, lessons, quarters=1):
    """Give a learner so many courses of so many completed lessons each, straight by SQL.

    One lesson each quarter of an hour, going back from noon; `quarters` of them a day.
    """
    noon = datetime.fromisoformat(NOW)
    own = {"user_id": user.id}
    moments = [
        noon - timedelta(days=number // quarters, minutes=15 * (number % quarters))
        for number in range(courses * lessons)
    ]
    records = {
        Course: [
            {**own, "id": f"c{number}", "name": "C", "lessons": lessons + number % 2}
            for number in range(courses)
        ],
        Lesson: [
            {**own, "course_id": f"c{number % courses}", "id": f"l{number}", "minutes": 7}
            | {"completed_at": moment}
            for number, moment in enumerate(moments)
        ],
        Achievement: [
            {**own, "id": f"a{number}", "name": "A", "earned_at": noon} for number in range(courses)
        ],
    }
    with app.app_context(), transaction() as session:
        for table, values in records.items():
            session.execute(insert(table.__table__), values)


def test_thousands_of_lessons_add_up(app, school, make_user):
    neighbour = make_user("neighbour")
    fill(app, neighbour, courses=3, lessons=100)
    fill(app, school.learner, courses=50, lessons=100, quarters=13)
    found = school.progress()
    assert len(found.pop("achievements")) == 50
    # Every other course has a lesson more; there are 13 lessons a day.
    counts = dict(zip(COUNTS, (50, 25, 5025, 5000, 385), strict=True))
    assert found == counts | {"totalHours": 583.3}
    school.settings({"timezone": "Asia/Kathmandu"})
    assert school.progress()["currentStreak"] == 385


def test_reading_takes_no_more_statements_however_much_there_is(app, school, make_user):
    classmate = make_user("classmate")

    def cost(path, viewer):
        school.headers(viewer)
        with statements_of(app) as sent:
            seen = success(school.get(path, viewer))
        return len(sent), "progress" in seen

    costs = []
    for lessons in (3, 300):
        learner = make_user(f"learner-{lessons}")
        fill(app, learner, courses=3, lessons=lessons // 3)
        for number in range(lessons // 30 + 1):
            success(school.put(f"certificates/{number}", CERTIFICATE, of=learner), 201)
        # The guard's, and then one for each table that is read.
        expected = {"profile": 1, "settings": 1, "progress": 4, "certificates": 2}
        found = {path: cost(path, learner)[0] for path in expected}
        assert found == expected
        for visible in (True, False):
            school.settings({"privacy": {"progressVisible": visible}}, learner)
            for viewer in (learner, school.system, classmate):
                sent, shown = found[viewer.id, visible] = cost(learner.id, viewer)
                assert shown == (visible or viewer is not classmate)
                assert sent == (5 if shown else 2)
        costs.append([*found.values()])
    assert costs[0] == costs[1]
