/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest of a recording has written to its serial ports, and when
 *
 * The log has when, and how many bytes, but neither the bytes nor where they
 * went.  A replay has those (output-collector.h), and they are kept in the
 * recording:
 *
 *   head     struct guest_output_head
 *   runs     of each its port (1 byte), how many bytes it has (2 bytes, little
 *            endian, not 0), and these
 *
 * Bytes are in the order in which they were written, over all ports, so both
 * files are read side by side: each write of the log has its bytes there.
 */

#ifndef BTRAIL_GUEST_OUTPUT_H
#define BTRAIL_GUEST_OUTPUT_H

#include "find/place.h"
#include "replay/recording.h"

#define RECORDING_OUTPUT        "output"

/* Ports: serial ones, and then others, which are logged as well */
#define GUEST_OUTPUT_PORTS      64
#define GUEST_OUTPUT_OTHER      0x80
#define GUEST_OUTPUT_RUN        UINT16_MAX

/**
 * struct guest_output_head - all numbers are little endian
 * @begin: of the recording
 * @end:   instructions that were executed where the replay has ended
 * @log_sha256: zero bytes if the recording does not know it
 */
struct guest_output_head {
    char magic[8];
    uint64_t log_size;
    uint64_t begin;
    uint64_t end;
    char log_sha256[64];
};

/* That of a recording, without its end */
void guest_output_head_init(struct guest_output_head *head,
                            const struct recording *r);

/* Is there such a file? */
bool guest_output_there(const struct recording *r);

/* An error, COMMAND, if the guest has no serial port */
bool guest_output_possible(const struct recording *r, GError **error);

/* The places where the guest has written the last byte of a text, one by one */
struct guest_output;

/**
 * guest_output_open - look for a text
 * @text:   of @length bytes, at least 1
 *
 * A text ends wherever the last bytes that were written to a port are the text.
 *
 * Errors: COMMAND (the guest has no port; there is no file); PROTOCOL (the log,
 * or the file, which can come from anybody, is damaged or not of this
 * recording); SYSTEM.
 */
struct guest_output *guest_output_open(const struct recording *r,
                                       const char *text, size_t length,
                                       GError **error);

/**
 * guest_output_next - the next place
 * @icount: gets the instructions that were executed then, with the one that has
 *          written the byte
 *
 * False at the end, and with an error PROTOCOL where something is damaged.
 */
bool guest_output_next(struct guest_output *o, uint64_t *icount,
                       GError **error);

void guest_output_free(struct guest_output *o);

/**
 * guest_output_find - one of these places
 * @place:  of kind FIND_PLACE_OUTPUT
 *
 * Errors: those of guest_output_open(); COMMAND (the guest does not write it,
 * or not that often).
 */
bool guest_output_find(const struct recording *r,
                       const struct find_place *place, uint64_t *icount,
                       GError **error);

#endif /* BTRAIL_GUEST_OUTPUT_H */
