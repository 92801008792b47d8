/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Notifications to systemd: sd_notify(3), without its library
 */

#ifndef BTRAIL_NOTIFY_H
#define BTRAIL_NOTIFY_H

/* @state is such as "READY=1".  Without systemd, nothing happens. */
void service_notify(const char *state);

#endif /* BTRAIL_NOTIFY_H */
