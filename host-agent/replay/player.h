/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A player: a QEMU that replays a recording, and stops where it is told to
 *
 * A place is a number of instructions that the guest has executed since it was
 * switched on: the next one that it executes has that index.  Between two
 * calls, a player is stopped.
 */

#ifndef BTRAIL_PLAYER_H
#define BTRAIL_PLAYER_H

#include <json-glib/json-glib.h>

#include "replay/output-collector.h"
#include "replay/recording.h"

struct player;

/**
 * struct player_terminal - where the first serial port leads
 * @input:  read once the guest is live
 */
struct player_terminal {
    int input;
    int output;
};

/**
 * struct player_options
 * @recording: must live as long as the player
 * @program:   path of QEMU; NULL if none is known, which is an error
 * @any_qemu:  try even if this is another QEMU than the one that has recorded
 *             it
 * @trace:     with the device branch-trace
 * @checkpoints: bytes of memory for checkpoints, to which it goes back; 0: it
 *             takes none
 * @interval_ms: host time between two of them; 0 for what suits going back
 * @saved:     use those that are saved in the recording, if they are this
 *             user's
 * @serial:    file that gets what the guest writes to its serial ports;
 *             relative to the private folder; NULL for none
 * @terminal:  where it leads instead, or NULL
 * @output:    collects what the guest writes to all ports, instead of both; or
 *             NULL
 * @cancel_fd: any wait ends when it becomes readable; -1 for none
 * @progress:  called each second while the guest runs, or NULL
 */
struct player_options {
    const struct recording *recording;
    const char *program;
    bool any_qemu;
    bool trace;
    uint64_t checkpoints;
    unsigned interval_ms;
    bool saved;
    const char *serial;
    const struct player_terminal *terminal;
    struct output_collector *output;
    int cancel_fd;
    void (*progress)(uint64_t icount, void *opaque);
    void *opaque;
};

/*
 * Starts QEMU, which is before the first instruction of the recording.  It
 * dies with the calling thread.
 *
 * Errors: those of QEMU, with its last words; PROTOCOL (another QEMU, or
 * arguments that a recording must not have).
 */
struct player *player_start(const struct player_options *options,
                            GError **error);

/*
 * While it goes somewhere, @go_on is asked each few milliseconds: if it returns
 * false, the guest stays where it is, and that is error CANCELLED.  NULL for
 * none.
 */
void player_set_go_on(struct player *p, bool (*go_on)(void *opaque),
                      void *opaque);

/* Memory for checkpoints, unless somebody says otherwise */
#define PLAYER_CHECKPOINTS  (UINT64_C(1) << 30)

/**
 * player_goto - go to a place, forwards or backwards
 *
 * Errors: PROTOCOL (before the recording begins, or after its end, where the
 * player then is; or the replay is stuck), and those of player_start().
 */
bool player_goto(struct player *p, uint64_t icount, GError **error);

/*
 * Stops the guest wherever it is; QEMU no longer goes to where it was told to
 * go.
 */
bool player_halt(struct player *p, GError **error);

/* Goes to the end of the recording, where QEMU stays. */
bool player_finish(struct player *p, GError **error);

/*
 * What the guest is let execute from here until player_goto() is not what was
 * recorded, and done by one vCPU alone: see QEMU's command replay-divert.
 */
bool player_divert(struct player *p, unsigned vcpu, GError **error);

/*
 * Leave the replay for good: what the guest does from there on is its
 * own.  Networks are cut off, and disks are overlays that go with it.
 */
bool player_go_live(struct player *p, GError **error);

/* Lets the guest run, and returns. */
bool player_run(struct player *p, GError **error);

/* Waits until a guest that is live has ended, or for options.cancel_fd. */
bool player_wait_end(struct player *p, GError **error);

/* Where it is */
bool player_icount(struct player *p, uint64_t *icount, GError **error);

/*
 * After an error: has QEMU stopped, or ended, since the log has something else
 * than what the guest does?  Then @icount gets where that is.
 */
bool player_diverged(const struct player *p, uint64_t *icount);

/*
 * Unix sockets, one client at a time: QEMU's gdbstub, and a QMP monitor that
 * the player does not use itself
 */
const char *player_gdb_socket(const struct player *p);
const char *player_qmp_socket(const struct player *p);

const struct recording *player_recording(const struct player *p);

/* Why it does not use the saved checkpoints that there are; or NULL */
const char *player_note(const struct player *p);

/* The hash of QEMU */
const char *player_program_sha256(const struct player *p);

/* What QEMU says of its checkpoints: ReplayCheckpointsInfo */
JsonNode *player_checkpoints(struct player *p, GError **error);

/* A QMP command, and a line of the human monitor whose text is to be freed */
JsonNode *player_execute(struct player *p, const char *command,
                         JsonObject *arguments, int fd, int timeout_ms,
                         GError **error);
/* Gives QEMU a descriptor, by a name that the next command has. */
bool player_pass(struct player *p, const char *name, int fd, GError **error);
char *player_hmp(struct player *p, const char *line, GError **error);

/* Ends QEMU and frees the player. */
void player_free(struct player *p);

#endif /* BTRAIL_PLAYER_H */
