"""language of mails"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade():
    op.add_column("outbox", sa.Column("language", sa.String(35)))
