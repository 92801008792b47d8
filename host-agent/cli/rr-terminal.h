/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The terminal as a guest's serial port
 */

#ifndef BTRAIL_CLI_RR_TERMINAL_H
#define BTRAIL_CLI_RR_TERMINAL_H

#include <stdbool.h>
#include <termios.h>

/**
 * struct rr_terminal - keys go to the guest as they are typed
 * @input: what the guest reads; -1 before rr_terminal_open()
 */
struct rr_terminal {
    int input;
    int output;
    bool changed;
    struct termios before;
};

#define RR_TERMINAL_CLOSED { .input = -1, .output = -1 }

/* Prepares @input.  Returns false if there can be none. */
bool rr_terminal_open(struct rr_terminal *t);

/* From now on what is typed gets to @input, but for Ctrl-C and its like. */
void rr_terminal_start(struct rr_terminal *t);

void rr_terminal_close(struct rr_terminal *t);

#endif /* BTRAIL_CLI_RR_TERMINAL_H */
