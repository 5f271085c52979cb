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
    """A SELECT of at most one row, whose parameters are texts."""

    def __init__(self, statement: Select[Any]) -> None:
        self.statement = statement
        self._compiled: dict[str, tuple[str, list[str], _Convert]] = {}

    def one_or_none(self, **parameters: str) -> Any | None:
        """Return the row, or None. Raises SQLAlchemy's errors."""
        with reading() as connection:
            dialect = connection.dialect
            sql, names, row_of = self._compiled.get(dialect.name) or self._compile(dialect)
            values = tuple([parameters[name] for name in names])
            cursor = _cursor(connection)
            try:
                with in_time(cursor.connection):
                    found = cursor.execute(sql, values).fetchall()
            except dialect.loaded_dbapi.Error:
                # SQLAlchemy gets the same error, and knows whether the pool's connections are dead.
                found = connection.exec_driver_sql(sql, values).all()
        return row_of(found[0]) if found else None

    def _compile(self, dialect: Dialect) -> tuple[str, list[str], _Convert]:
        compiled: Any = self.statement.compile(dialect=dialect)
        columns = self.statement.exported_columns
        row = namedtuple("row", [column.key for column in columns])  # type: ignore[misc]
        conversions = [
            (place, convert)
            for place, column in enumerate(columns)
            if (convert := column.type.dialect_impl(dialect).result_processor(dialect, None))
        ]

        def row_of(found: Any) -> Any:
            values = list(found)
            for place, convert in conversions:
                values[place] = convert(values[place])
            return row._make(values)

        self._compiled[dialect.name] = str(compiled), compiled.positiontup, row_of
        return self._compiled[dialect.name]


def _cursor(connection: Connection) -> Any:
    """Return the cursor of a connection for all of these statements: a new one would look up again
    how to read each column.
    """
    pooled: Any = connection.connection
    if DriverStatement not in pooled.info:
        pooled.info[DriverStatement] = pooled.dbapi_connection.cursor()
    return pooled.info[DriverStatement]
