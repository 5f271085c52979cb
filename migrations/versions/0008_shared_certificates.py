"""shared certificates"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

HOLDER = """UPDATE certificates SET holder = (
    SELECT first_name || ' ' || last_name FROM users WHERE users.id = certificates.user_id
)"""


def upgrade():
    op.add_column("certificates", sa.Column("share_code", sa.String(16)))
    op.add_column("certificates", sa.Column("holder", sa.String(129)))
    op.add_column("certificates", sa.Column("revoked_at", sa.BigInteger))
    op.execute(HOLDER)
    op.create_index("ix_certificates_share_code", "certificates", ["share_code"], unique=True)
