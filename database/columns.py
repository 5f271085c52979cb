"""Types of columns that mean the same on both databases, and columns with the CHECK of a table."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import mapped_column

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UTCDateTime(sa.TypeDecorator[datetime]):
    """An aware datetime in UTC on both databases; SQLite does not store time zones."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class EpochSeconds(sa.TypeDecorator[datetime]):
    """An aware datetime, stored as seconds since 1970.

    For times that clients choose: a time zone of the database session cannot move one out of the
    years 1 to 9999, and both databases calculate with integers in the same way.
    """

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> int | None:
        return None if value is None else (value - _EPOCH) // timedelta(seconds=1)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else _EPOCH + timedelta(seconds=value)


def by_bytes(most: int | None = None) -> sa.types.TypeEngine[str]:
    """Return the type of a text that an index holds, at most so long, compared by its bytes.

    By the locale of a Postgres database, the order in the index would change with another release
    of the system's library, and rows would not be found any more, or get in twice.
    """
    return sa.String(most).with_variant(sa.String(most, collation="C"), "postgresql")


def text_column(least: int, most: int, *, is_key: bool = False, **options: Any) -> Any:
    """Return a column for a text of so many characters, with the CHECK of its table."""
    made = mapped_column(by_bytes(most) if is_key else sa.String(most), **options)

    @sa.event.listens_for(made.column, "after_parent_attach")
    def bound(column: sa.Column[str], table: sa.Table) -> None:
        length = f"length({column.name})"
        bounds = f"{length} BETWEEN {least} AND {most}" if least else f"{length} <= {most}"
        table.append_constraint(sa.CheckConstraint(bounds, f"{column.name}_length"))

    return made


def lower_case(column: str, of: str, name: str) -> Iterator[sa.CheckConstraint]:
    """Yield the CHECK that a column is the lower case of another one, for each database.

    Postgres lowers by the locale of the database: in Turkish, I is no capital i.
    """
    for database, source in (("sqlite", of), ("postgresql", f'{of} COLLATE "C"')):
        check = sa.CheckConstraint(f"{column} = lower({source})", name)
        yield check.ddl_if(dialect=database)
