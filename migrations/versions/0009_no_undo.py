"""facts of mails, a window for wrong codes, no undo of e-mail changes"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

moment = sa.DateTime(timezone=True)
outbox = sa.table("outbox", *map(sa.column, ("id", "kind", "about")), sa.column("facts", sa.JSON))


def facts_of(kind, about):
    """Return what a queued mail says. `about` was an id, an event, or an event and a number."""
    if kind != "second_factor":
        return {"change_id": about}
    event, _, left = about.partition(" ")
    return {"event": event, "left": left}


def upgrade():
    connection = op.get_bind()
    # First, because on Postgres this locks the users too, and the service locks users before mails: in
    # another order each would wait for the other. Only a few queued mails are changed after it.
    op.execute("DROP TABLE IF EXISTS email_changes")
    op.add_column("outbox", sa.Column("facts", sa.JSON, nullable=False, server_default="{}"))
    for mail in connection.execute(sa.select(outbox).where(outbox.c.about.is_not(None))).all():
        this = sa.update(outbox).where(outbox.c.id == mail.id)
        connection.execute(this.values(facts=facts_of(mail.kind, mail.about)))
    op.execute("UPDATE outbox SET kind = 'email_changed' WHERE kind = 'email_replaced'")
    op.drop_column("outbox", "about")
    op.execute("ALTER TABLE second_factors RENAME COLUMN failures TO wrong_codes")
    op.add_column("second_factors", sa.Column("window_ends_at", moment))
    op.drop_column("second_factors", "warned_at")
