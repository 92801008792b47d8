/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does a domain run?  What libvirt says of it as it happens, and stopping it
 */

#ifndef BTRAIL_DOMAIN_WATCH_H
#define BTRAIL_DOMAIN_WATCH_H

#include "libvirt/domain.h"

/**
 * domain_watch_prepare - have libvirt say what happens
 *
 * Comes before the connection is opened, and once: libvirt takes the events of
 * connections that were opened afterwards.  Loads libvirt.
 */
bool domain_watch_prepare(GError **error);

struct domain_watch;

/* @d must outlive it.  Returns NULL and @error. */
struct domain_watch *domain_watch_new(struct domain *d, GError **error);
void domain_watch_free(struct domain_watch *w);

/**
 * domain_watch_stands - can the domain be stopped, or does it stand already?
 * @stands: whether it stands: paused, or after a panic
 *
 * Returns false and @error, which says what to do, if it is off, or if it is
 * being migrated, saved or dumped.
 */
bool domain_watch_stands(struct domain_watch *w, bool *stands, GError **error);

/**
 * domain_watch_wait - wait until the domain stands
 * @until:     g_get_monotonic_time() at which to give up; 0: never
 * @cancel_fd: give up when it becomes readable; -1: never
 *
 * Returns false and @error: CANCELLED, TIMEOUT, or CLOSED if the domain has
 * ended, or libvirt.
 */
bool domain_watch_wait(struct domain_watch *w, gint64 until, int cancel_fd,
                       GError **error);

/* Stops the domain, and has it go on. */
bool domain_watch_stop(struct domain_watch *w, GError **error);
bool domain_watch_go_on(struct domain_watch *w, GError **error);

/**
 * domain_watch_attend - take notice of what happens until @fd is readable
 *
 * Returns false and @error if libvirt does not say it any more.
 */
bool domain_watch_attend(struct domain_watch *w, int fd, GError **error);

/*
 * Does it stand because somebody has paused it, and for no other reason?  False
 * also if that is not known.
 */
bool domain_watch_paused(struct domain_watch *w);

/* It is about to be stopped; domain_watch_stop() says so itself. */
void domain_watch_stops(struct domain_watch *w);

/*
 * Has it been stopped, and gone on afterwards, since domain_watch_stops()?  By
 * what libvirt has said so far.
 */
bool domain_watch_resumed(struct domain_watch *w);

/**
 * domain_watch_ran - has it gone on, or was it reset, since it was asked last?
 *
 * It waits a moment for events: libvirt sends them beside its answers.
 */
bool domain_watch_ran(struct domain_watch *w);

#endif /* BTRAIL_DOMAIN_WATCH_H */
