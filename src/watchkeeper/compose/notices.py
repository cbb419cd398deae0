"""Notices, joined from the settings and the sinks."""

from typing import TYPE_CHECKING

from watchkeeper.app.notices import Notifier
from watchkeeper.domain.notice import NoticeKind, QuietHours
from watchkeeper.domain.notice_settings import quiet_minutes
from watchkeeper.runtimes.notice_sinks import CommandSink, DesktopSink, ServicesSink, WebhookSink

if TYPE_CHECKING:
    from watchkeeper.compose.parts import Watchkeeper
    from watchkeeper.ports.notices import Sink


def notifier_of(parts: "Watchkeeper") -> Notifier:
    """Sends to every sink that is set."""
    settings = parts.settings
    minutes = quiet_minutes(settings.notify_quiet or "")
    return Notifier(
        store=parts.store,
        clock=parts.clock,
        machine=parts.node,
        sinks={sink.name: sink for sink in sinks_of(parts)},
        wanted=frozenset(map(NoticeKind, settings.notify_on)),
        quiet=None if minutes is None else QuietHours(begin=minutes[0], end=minutes[1]),
    )


def sinks_of(parts: "Watchkeeper") -> "list[Sink]":
    """Each sink that the settings name."""
    settings, found = parts.settings, list["Sink"]()
    if settings.notify_command is not None:
        found.append(CommandSink(settings.notify_command, parts.environ))
    if settings.notify_webhook is not None:
        found.append(WebhookSink(settings.notify_webhook, settings.notify_webhook_key, parts.system_clock.now))
    if settings.notify_desktop == "yes":
        found.append(DesktopSink(parts.environ))
    if settings.notify_services:
        found.append(ServicesSink(settings.notify_services))
    return found
