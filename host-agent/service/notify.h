/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a service tells systemd: sd_notify(3), without its library
 */

#ifndef BTRAIL_NOTIFY_H
#define BTRAIL_NOTIFY_H

/* @state such as "READY=1"; nothing happens if nobody wants to know. */
void btrail_notify(const char *state);

#endif /* BTRAIL_NOTIFY_H */
