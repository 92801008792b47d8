/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File descriptors that are readable once something has happened, until they
 * are cleared
 */

#ifndef BTRAIL_EVENT_FD_H
#define BTRAIL_EVENT_FD_H

/* Not readable yet; to be closed.  A process that cannot have one ends. */
int btrail_event_fd_new(void);

/* Make it readable, if it is not; from any thread. */
void btrail_event_fd_set(int fd);

/* Does not wait for it to be readable. */
void btrail_event_fd_clear(int fd);

#endif /* BTRAIL_EVENT_FD_H */
