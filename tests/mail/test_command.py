"""`flask mail test`: what the mail server says, on the screen."""

from helpers import rows

from models import OutboxMail

STUDENT = "student@example.org"


def test_command_sends_at_once_and_prints_what_the_server_said(run, server, app):
    assert run("mail", "test", STUDENT) == ("The mail server has accepted it: 250 OK\n", 0)
    assert server.box.envelopes == [("no-reply@school.test", [STUDENT])]
    assert "school.test" in server.box.mails[0].get_body(("plain",)).get_content()
    for answers, answer in (
        (server.box.to_recipient, f"554 5.7.1 <{STUDENT}>: Relay access denied"),
        (server.box.to_recipient, "550 5.1.1 User unknown"),
        (server.box.to_sender, "550 5.7.1 \x1b[31mNot your address"),
        (server.box.to_data, "421 Closing"),
    ):
        answers.append(answer)
        output, code = run("mail", "test", STUDENT)
        assert code == 1
        assert output.startswith("Error: It was not sent: ")
        assert output.endswith(f"It said: {answer.replace(chr(27), ' ')}\n")
    assert rows(app, OutboxMail) == []


def test_command_says_why_nothing_can_be_sent(run, serve, certify, use_server):
    server = serve(tls_context=certify())
    use_server(server.at(login=True))
    server.box.right_login = (b"other", b"other")
    output, code = run("mail", "test", STUDENT)
    assert (code, output) == (1, "Error: It was not sent: SMTPAuthenticationError 535 5.7.8.\n")
    server.stop()
    output, code = run("mail", "test", STUDENT)
    assert (code, "ConnectionRefusedError" in output) == (1, True)
    use_server(None)
    output, code = run("mail", "test", STUDENT)
    assert (code, "MAIL_URL" in output) == (1, True)


def test_command_refuses_what_is_no_address_with_a_mailbox(run, server):
    for address in ("nobody", "pupil@class.invalid", f"{STUDENT}, other@example.org", "=?x@a.org"):
        assert run("mail", "test", address)[1] in (1, 2)
    assert server.box.mail_commands == 0
