/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine of a recording: from QEMU's command line to one that can be
 * recorded, and to one that replays it
 *
 * Both have the same devices.  The recording one has the user's network,
 * serial ports and display.  The replaying one has nothing from outside of the
 * recording's folder: what came from there is in the log.  Only options that
 * are known to be right are taken; what cannot be replayed is refused by its
 * name.
 *
 * QEMU runs in a private folder, where "recording" is a link to the recording.
 */

#ifndef BTRAIL_MACHINE_H
#define BTRAIL_MACHINE_H

#include "replay/recording.h"

/* Where firmware is, as QEMU finds it */
#define MACHINE_FIRMWARE    RECORDING_FILES "/firmware"
/*
 * How virtual time follows instructions: 4 ns each, which is about what TCG
 * takes, and an idle guest waits for nothing.  If time passed faster, the
 * kernel's timer would interrupt the same work more often.
 */
#define MACHINE_ICOUNT      "shift=2,sleep=off"

/**
 * struct machine_file - a file to copy
 * @source: path, as given
 * @name:   in the folder of the recording
 */
struct machine_file {
    char *source;
    char *name;
};

/**
 * struct machine
 * @record: of char *: arguments that follow the program
 * @replay: the same for a replay
 * @firmware: of char *: folders that the user's -L options name
 * @files:  of struct machine_file
 * @note:   what a user must know of it; or NULL
 */
struct machine {
    GPtrArray *record;
    GPtrArray *replay;
    GPtrArray *firmware;
    GPtrArray *files;
    const char *note;
};

/**
 * machine_new - make a machine of a command line
 * @arguments: of QEMU, without the program; ends with NULL
 *
 * Errors: COMMAND, which names what cannot be replayed and what to use instead.
 */
struct machine *machine_new(char *const *arguments, GError **error);
void machine_free(struct machine *m);

/* Is it an option that is known, and has a value? */
bool machine_option_has_value(const char *given);

#endif /* BTRAIL_MACHINE_H */
