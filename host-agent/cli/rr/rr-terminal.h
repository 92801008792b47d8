/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The terminal as a guest's serial port
 *
 * To the guest, or to whoever has recorded it, the terminal is no more than a
 * screen to write to: see terminal-filter.h.  What is no terminal gets all that
 * the guest writes.
 */

#ifndef BTRAIL_CLI_RR_TERMINAL_H
#define BTRAIL_CLI_RR_TERMINAL_H

#include <glib.h>
#include <stdbool.h>
#include <termios.h>

/**
 * struct rr_terminal - keys go to the guest as they are typed
 * @input:  what the guest reads; -1 before rr_terminal_open()
 * @screen: where it writes to
 */
struct rr_terminal {
    int input;
    int output;
    int screen;
    GThread *shows;
    bool changed;
    struct termios before;
};

#define RR_TERMINAL_CLOSED { .input = -1, .output = -1, .screen = -1 }

/* Prepares @input and @screen.  Returns false if there can be none. */
bool rr_terminal_open(struct rr_terminal *t);

/* From now on what is typed gets to @input, except Ctrl-C and its like. */
void rr_terminal_start(struct rr_terminal *t);

/* After the guest has ended: all that it has written is shown then. */
void rr_terminal_close(struct rr_terminal *t);

#endif /* BTRAIL_CLI_RR_TERMINAL_H */
