"""end of sessions"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

# Until they are replaced, processes of version 1.0 keep a session that they end on the denylist until
# this time of its row. Later versions do not set it, so it must be later than any access token lives.
# When the column is dropped, rows of the denylist with this time can be deleted.
LATER = "9999-01-01 00:00:00.000000"


def upgrade():
    # SQLite cannot change the default of a column. This also sets it in the rows that exist, and
    # Postgres need not write to them.
    op.drop_column("sessions", "access_expires_at")
    moment = sa.DateTime(timezone=True)
    later = sa.Column("access_expires_at", moment, nullable=False, server_default=LATER)
    op.add_column("sessions", later)
