/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connection of a gdb: packets in and out, in the main loop
 *
 * A gdb sends its next request when it has the answer to the last one.  One
 * that does not, or that breaks the protocol, is hung up on.
 */

#ifndef BTRAIL_GDB_CLIENT_H
#define BTRAIL_GDB_CLIENT_H

#include <glib.h>
#include <stdbool.h>

struct client;

/**
 * struct client_functions - what is called, with the pointer of client_new()
 * @packet:    a request, to be answered by client_answer() now or later; it has
 *             a NUL behind it
 * @interrupt: the user wants the guest to stop; it is called while a request is
 *             served, too, if that runs the main loop
 * @closed:    the connection is gone, or was hung up on: to be followed by
 *             client_free()
 */
struct client_functions {
    void (*packet)(void *opaque, const char *payload, size_t n);
    void (*interrupt)(void *opaque);
    void (*closed)(void *opaque);
};

/* Takes a connected socket, or two files; @packet_size: the most bytes of a
 * request.  SIGPIPE must be ignored if they are pipes. */
struct client *client_new(int in, int out, size_t packet_size,
                          const struct client_functions *functions,
                          void *opaque);
void client_free(struct client *c);

/* Answers the request. */
void client_answer(struct client *c, const char *payload, size_t n);
void client_answer_text(struct client *c, const char *payload);

/* Sends text for its user to see, before the answer. */
void client_print(struct client *c, const char *text);

/* From the next request on neither side acknowledges packets. */
void client_stop_acks(struct client *c);

/* Hangs up; @closed is called in the main loop. */
void client_end(struct client *c);

#endif /* BTRAIL_GDB_CLIENT_H */
