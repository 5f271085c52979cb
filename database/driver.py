"""The guard's statements, executed by the driver in a fraction of SQLAlchemy's time.

Each request with a token or a service key runs one of them, and many run nothing else.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Select
from sqlalchemy.engine import Dialect

from database import reading
from database.engines import in_time

_Convert = Callable[[Any], Any]


class DriverStatement:
    """A SELECT of at most one row."""

    def __init__(self, statement: Select[Any]) -> None:
        self.statement = statement
        self._compiled: dict[str, tuple[str, _Convert, _Convert]] = {}

    def one_or_none(self, **parameters: object) -> Any | None:
        """Return the row, or None. Raises SQLAlchemy's errors, or the driver's from connecting."""
        with reading() as connection:
            dialect = connection.dialect
            sql, values_of, row_of = self._compiled.get(dialect.name) or self._compile(dialect)
            values = values_of(parameters)
            cursor = _cursor(connection)
            try:
                with in_time(cursor.connection):
                    found = cursor.execute(sql, values).fetchall()
            except dialect.loaded_dbapi.Error:
                # SQLAlchemy gets the same error, and knows whether the pool's connections are dead.
                found = connection.exec_driver_sql(sql, values).all()
        return row_of(found[0]) if found else None

    def _compile(self, dialect: Dialect) -> tuple[str, _Convert, _Convert]:
        compiled: Any = self.statement.compile(dialect=dialect)
        binds = [
            (name, compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in compiled.positiontup
        ]
        columns = self.statement.exported_columns
        row = namedtuple("row", [column.key for column in columns])  # type: ignore[misc]
        conversions = [
            (place, convert)
            for place, column in enumerate(columns)
            if (convert := column.type.dialect_impl(dialect).result_processor(dialect, None))
        ]

        def values_of(parameters: Any) -> Any:
            return tuple(
                [
                    convert(parameters[name]) if convert else parameters[name]
                    for name, convert in binds
                ]
            )

        def row_of(found: Any) -> Any:
            values = list(found)
            for place, convert in conversions:
                values[place] = convert(values[place])
            return tuple.__new__(row, values)

        self._compiled[dialect.name] = str(compiled), values_of, row_of
        return self._compiled[dialect.name]


def _cursor(connection: Connection) -> Any:
    """Return the cursor of a connection for all of these statements: a new one would look up again
    how to read each column.
    """
    pooled: Any = connection.connection
    if DriverStatement not in pooled.info:
        pooled.info[DriverStatement] = pooled.driver_connection.cursor()
    return pooled.info[DriverStatement]
