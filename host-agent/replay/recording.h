/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording: a folder with all that a replay of a guest needs
 *
 *   recording.json  the manifest: what this file reads and writes
 *   replay.log      what came to the guest from outside, as QEMU has logged it
 *   files/          what the guest began with: disks, kernel, firmware, and
 *                   the base, if it was not switched on then but ran already
 *   ring/           what it began with later, if only its last part is kept: a
 *                   base, and what disks had by then that files/ has not
 *   trace.btrail    the branches, made by the first replay
 *   fingerprints    what later replays are compared with
 *   checkpoints     from which they get to a place (saved-checkpoints.h)
 *
 * It can be moved and copied.  It can come from anybody, too: the manifest
 * names nothing outside of the folder, and machine.h says which arguments of
 * QEMU it may have.
 */

#ifndef BTRAIL_RECORDING_H
#define BTRAIL_RECORDING_H

#include <json-glib/json-glib.h>

#include "replay/log-reader.h"
#include "util/agent-error.h"

/* The state of a guest's devices and RAM, as QEMU migrates it */
#define RECORDING_BASE           "files/base"

/* Names in the folder */
#define RECORDING_MANIFEST       "recording.json"
#define RECORDING_LOG            "replay.log"
#define RECORDING_FILES          "files"
#define RECORDING_RING           "ring"
#define RECORDING_TRACE          "trace.btrail"
#define RECORDING_FINGERPRINTS   "fingerprints"

/**
 * struct recorded_file - a file of the folder
 * @name:   relative to the folder
 * @source: where it was copied from, for people; may be NULL
 * @size:   in bytes
 * @sha256: of what is in it, 64 hexadecimal digits
 * @overlay: if it is an image: the file with what the guest had written to it
 *          when the recording begins, or NULL
 */
struct recorded_file {
    char *name;
    char *source;
    uint64_t size;
    char *sha256;
    char *overlay;
};

/**
 * struct recording - what the manifest says
 * @folder:       absolute
 * @complete:     QEMU has ended in order, and the log is whole
 * @created:      seconds since 1970
 * @duration_ns:  how long it was recorded; 0 if not complete
 * @instructions: that the guest has executed; 0 if not known
 * @qemu:         path of the QEMU that has recorded it
 * @qemu_version: what it says of itself
 * @qemu_sha256:  of the program
 * @icount:       the option -icount without what is particular to a process
 * @arguments:    of QEMU for a replay, see machine.h; ends with NULL
 * @files:        of struct recorded_file
 * @base:         file with what the guest began with, or NULL: power-on
 * @begin:        where the log continues from there
 * @log:          its size and hash; the hash is NULL if not complete
 */
struct recording {
    char *folder;
    bool complete;
    int64_t created;
    uint64_t duration_ns;
    uint64_t instructions;
    char *qemu;
    char *qemu_version;
    char *qemu_sha256;
    char *icount;
    char **arguments;
    GPtrArray *files;
    char *base;
    struct log_start begin;
    struct recorded_file log;
};

/* An empty one; @folder need not exist. */
struct recording *recording_new(const char *folder);
void recording_free(struct recording *r);

/* Adds a file; the strings are copied. */
void recording_add_file(struct recording *r, const char *name,
                        const char *source, uint64_t size,
                        const char *sha256);

/* NULL if there is no file of this name */
struct recorded_file *recording_find_file(const struct recording *r,
                                          const char *name);

/* Removes the files whose names begin so, from the list only. */
void recording_remove_files(struct recording *r, const char *prefix);

/* Of a file of the folder, to be freed */
char *recording_path(const struct recording *r, const char *name);

/* The text of a manifest; @folder is only kept. */
struct recording *recording_parse(const char *folder, const char *text,
                                  GError **error);

/**
 * recording_open - read the manifest of a folder
 *
 * Checks that each file is there, is a file, and has its size.
 *
 * Errors, all with what to do: SYSTEM (it cannot be read), PROTOCOL (no
 * recording, damaged, or cut off).
 */
struct recording *recording_open(const char *folder, GError **error);

/* Reads all files and compares their hashes. */
bool recording_check(const struct recording *r, GError **error);

/* Writes the manifest; what was there before stays if that fails. */
bool recording_save(const struct recording *r, GError **error);

/* Adds "arguments" and "files", as the manifest has them. */
void recording_add_json(const struct recording *r, JsonObject *o);

/* The SHA-256 of what is in a file, to be freed; @size may be NULL. */
char *recording_hash(const char *path, uint64_t *size, GError **error);

#endif /* BTRAIL_RECORDING_H */
