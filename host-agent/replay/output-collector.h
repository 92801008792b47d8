/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Collects what a guest writes to its ports while it is replayed: the file of
 * guest-output.h
 *
 * Each port of QEMU's is a socket of its own, and each write to it a datagram.
 * All of them come to one socket, in their order, with the name of the port.
 */

#ifndef BTRAIL_OUTPUT_COLLECTOR_H
#define BTRAIL_OUTPUT_COLLECTOR_H

#include "replay/recording.h"

struct output_collector;

/* Begins a new file, in the recording. */
struct output_collector *output_collector_new(const struct recording *r,
                                              GError **error);

/*
 * Has the ports in QEMU's arguments lead here: replaces what is in *@arguments.
 * Errors: PROTOCOL (there are too many); SYSTEM.
 */
bool output_collector_connect(struct output_collector *c, char ***arguments,
                              GError **error);

/* The sockets that QEMU has to inherit; ends with -1 */
const int *output_collector_sockets(const struct output_collector *c);

/**
 * output_collector_finish - write what has come up to now, and free it
 * @ok:  else nothing is left of it
 * @end: instructions that the guest has executed
 *
 * It is for a guest that is stopped, and has come to the end of its recording.
 * A file that was there is replaced.
 */
bool output_collector_finish(struct output_collector *c, bool ok, uint64_t end,
                             GError **error);

#endif /* BTRAIL_OUTPUT_COLLECTOR_H */
