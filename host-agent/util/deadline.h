/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The last moment of a program that was told to end
 *
 * What was recorded is written to its end first, if that is soon.  If it is not,
 * whatever waits for what, the program ends as by kill -9, which files outlive:
 * traces, recordings and states are whole up to what was written last.
 */

#ifndef BTRAIL_DEADLINE_H
#define BTRAIL_DEADLINE_H

/**
 * deadline_prepare - once, before deadline_begin()
 * @note: what is printed to stderr then: what is not as it should be, and what
 *        puts it right; a line, which must live as long
 *
 * Takes SIGALRM.
 */
void deadline_prepare(const char *note);

/*
 * SIGTERM has come: within a second, the process has ended by itself, or ends by
 * this signal.  Only the first call counts; from any thread, and from a signal
 * handler.
 */
void deadline_begin(void);

#endif /* BTRAIL_DEADLINE_H */
