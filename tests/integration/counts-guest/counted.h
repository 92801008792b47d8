/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that count what they do
 *
 * A function that begins with COUNT() counts its calls, and who made them is
 * what the caller says: nothing here is found out from a trace.
 */

#ifndef COUNTED_H
#define COUNTED_H

#include <stdint.h>

#define FUNCTION    __attribute__((noinline, noclone))

/* What a process counts: a call of @callee by @caller */
struct count {
    const char *caller;
    const char *callee;
    uint64_t calls;
};

/* Count a call that is about to be made; threads may do so at once. */
void count(const char *caller, const char *callee);

/* Count a thread, besides the first one. */
void count_thread(void);

/* Live for more branches than are buffered, so that a snapshot sees it. */
void live(void);

/* Begin to count, in a process that is new: forget what its parent counted. */
void count_begin(void);

/* Print what was counted, as a line of JSON. */
void count_print(const char *comm);

#define CALL(function, ...) \
    (count(__func__, #function), function(__VA_ARGS__))

#endif
