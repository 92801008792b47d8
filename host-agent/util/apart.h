/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What takes long, in a process of its own: a copy of this one, which can be
 * given up at any moment, and whose answer is some bytes
 */

#ifndef BTRAIL_APART_H
#define BTRAIL_APART_H

#include <glib.h>
#include <stdbool.h>

struct apart;

/* Appends the answer to @out.  Whatever else it changes is lost. */
typedef void apart_fn(void *opaque, GByteArray *out);

/*
 * Starts it; it dies with the calling thread.  NULL if there can be no more
 * processes.  No other thread may hold a lock that @compute takes.
 */
struct apart *apart_start(apart_fn *compute, void *opaque);

/* Gives it up if it has not ended. */
void apart_free(struct apart *a);

/*
 * Becomes readable when there is something to read; @done then says whether
 * that was all.
 */
int apart_fd(const struct apart *a);
void apart_read(struct apart *a, bool *done);

/* The answer, of @a; NULL if it has not come to its end */
const GByteArray *apart_answer(const struct apart *a);

/*
 * Waits until it has ended, as long as @go_on, which is asked each few
 * milliseconds, returns true; false if it does not.
 */
bool apart_wait(struct apart *a, bool (*go_on)(void *opaque), void *opaque);

/* Starts it and waits.  NULL if it is given up or fails. */
GByteArray *apart_run(apart_fn *compute, void *opaque,
                      bool (*go_on)(void *opaque), void *go_on_opaque);

#endif /* BTRAIL_APART_H */
