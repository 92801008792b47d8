/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File descriptors that are readable once something has happened, until they
 * are cleared
 */

#ifndef BTRAIL_EVENT_FD_H
#define BTRAIL_EVENT_FD_H

/* Returns one that is not readable, to be closed; aborts if it cannot. */
int event_fd_new(void);

/* Makes it readable; any thread */
void event_fd_set(int fd);

/* Makes it not readable; does not wait. */
void event_fd_clear(int fd);

#endif /* BTRAIL_EVENT_FD_H */
