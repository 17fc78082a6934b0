"""Parser of e-mails (RFC 5322, as mail programs save them), by Python's own email package."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage

from fathom.services.retrieval.corpus.parse.html import read_html
from fathom.services.retrieval.corpus.parse.model import Limits, ParsedDocument, ParseIssue, format_reason
from fathom.services.retrieval.corpus.parse.wrapping import join_wrapped_lines

HEADERS = ("From", "To", "Cc", "Date")


def read_mail(data: bytes, source: str, limits: Limits) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield an issue per attachment, which is not read, then one document: headers and text, published when sent."""
    try:
        message = message_from_bytes(data, policy=policy.default)
        assert isinstance(message, EmailMessage)
        if not any(message[name] for name in ("From", "To", "Subject")):
            yield ParseIssue(source, "file", "is no e-mail: it has neither sender, receiver nor subject")
            return
        title, sent = str(message["Subject"] or "").strip(), read_date(message)
        heads = [f"{name}: {message[name]}" for name in HEADERS if message[name]]
        names = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
        body = "\n".join(iter_text(message, source, limits))
    except Exception as error:  # a mail may break any of the rules that the package relies on
        yield ParseIssue(source, "file", f"is no e-mail that can be read: {format_reason(error)}")
        return
    for name in names:
        yield ParseIssue(source, "file", f"the attachment {name[:100]!r} is not read: send it as a file", lost=False)
    # Half a character cannot be stored; a wrong charset makes some.
    text = "\n".join((*heads, "", body)).encode("utf-8", "replace").decode("utf-8")
    yield ParsedDocument(text[: limits.text_chars].strip(), source, "file", title=title, published=sent, type="mail")


def iter_text(message: EmailMessage, source: str, limits: Limits) -> Iterator[str]:
    """Yield the text of a message: what it holds as plain text, or else its HTML without markup."""
    part = message.get_body(("plain", "html"))
    if part is None:
        return
    if part.get_content_subtype() != "html":
        yield join_wrapped_lines(str(part.get_content()).replace("\r\n", "\n"))
        return
    raw = part.get_payload(decode=True)
    found = read_html(raw if isinstance(raw, bytes) else b"", source, part.get_content_charset() or "", limits)
    yield from (item.text for item in found if isinstance(item, ParsedDocument))


def read_date(message: EmailMessage) -> datetime | None:
    """Return when a message was sent; None without a date that can be read and that names its zone."""
    sent = getattr(message["Date"], "datetime", None)
    return sent if isinstance(sent, datetime) and sent.tzinfo is not None else None
