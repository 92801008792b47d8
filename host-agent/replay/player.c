/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A player: see player.h
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/base.h"
#include "replay/emulator.h"
#include "replay/player.h"
#include "replay/replay-arguments.h"
#include "replay/saved-checkpoints.h"
#include "util/json.h"

#define POLL_MS     1000
/* How often it is asked whether to continue */
#define ASK_MS      50
/*
 * A replay that executes nothing for this long is stuck; or for this much CPU
 * time of QEMU, which then polls for an event.  Whatever else it may have to do
 * once, in one turn, counts as no more than that turn.
 */
#define STUCK_S     60
#define STUCK_CPU_S 10
/* In what QEMU says when the guest does not do what the log has */
#define SYNC_ERROR      "(insn total "
#define QUERY_MS    60000
/*
 * Host time between checkpoints: twice as many as QEMU takes by itself cost
 * the first pass 4 % more and the way back a sixth less.
 */
#define INTERVAL_MS 20
/* For replays that only go forward from what is saved */
#define NEVER_MS    UINT_MAX
#define OBJECT      "checkpoints"
#define SAVED_NAME  "saved-checkpoints"

struct player {
    struct player_options options;
    struct emulator *emulator;
    char *gdb_socket;
    char *qmp_socket;
    char *program_sha256;
    int saved;                  /* checkpoints that it loads; or -1 */
    bool checkpoints;           /* it has such an object */
    char *note;
    bool ended;
    bool diverted;
    bool stuck;                 /* at this instruction */
    uint64_t stuck_at;
    bool (*go_on)(void *opaque);
    void *go_on_opaque;
};

/*
 * The hash of the program, to be freed.  It is compared: a version says nothing
 * of patches.
 */
static char *check_program(const struct player_options *o,
                           const char *program, GError **error)
{
    g_autofree char *hash = NULL;

    if (!o->program) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                    "you have recorded nothing with the QEMU that it needs, "
                    "version %s, which was %s; what a recording names is not "
                    "run: name that QEMU with --qemu",
                    o->recording->qemu_version ?
                    o->recording->qemu_version : "unknown",
                    o->recording->qemu);
        return NULL;
    }
    hash = recording_hash(program, NULL, error);
    if (!hash) {
        g_prefix_error(error, "name the QEMU with --qemu: ");
        return NULL;
    }
    if (strcmp(hash, o->recording->qemu_sha256) && !o->any_qemu) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                    "%s: it was recorded by another QEMU, version %s, which "
                    "was %s; name that one with --qemu, or try this one with "
                    "--any-qemu", program, o->recording->qemu_version ?
                    o->recording->qemu_version : "unknown",
                    o->recording->qemu);
        return NULL;
    }
    return g_steal_pointer(&hash);
}

/* What is saved is in memory, too, besides those that are taken. */
static void add_checkpoints(struct player *p)
{
    uint64_t memory = p->options.checkpoints;
    unsigned interval = p->options.interval_ms;
    struct stat st;

    if (p->saved >= 0 && !memory && !fstat(p->saved, &st)) {
        memory = PLAYER_CHECKPOINTS + st.st_size;
        interval = NEVER_MS;
    }
    if (memory) {
        p->checkpoints = true;
        emulator_add(p->emulator, "-object");
        emulator_add(p->emulator, "replay-checkpoints,id=" OBJECT
                     ",interval-ms=%u,memory=%" G_GUINT64_FORMAT,
                     interval ? interval : INTERVAL_MS, memory);
    }
}

static void add_arguments(struct player *p)
{
    const struct recording *r = p->options.recording;
    struct emulator *e = p->emulator;

    emulator_add(e, "-icount");
    emulator_add(e, "%s,rr=replay,rrfile=recording/%s", r->icount,
                 r->log.name);
    base_add(r, e);
    emulator_add(e, "-S");
    emulator_add(e, "-no-shutdown");
    emulator_add(e, "-qmp");
    emulator_add(e, "unix:qmp,server=on,wait=off");
    emulator_add(e, "-gdb");
    emulator_add(e, "unix:gdb,server=on,wait=off");
    /* Checkpoints saved by a replay that traced have the device's state. */
    if ((p->options.trace || p->saved >= 0) &&
        !replay_arguments_trace(r->arguments)) {
        emulator_add(e, "-device");
        emulator_add(e, "branch-trace");
    }
    add_checkpoints(p);
}

/* Without them, the replay goes on as it would if there were none. */
static void open_saved(struct player *p)
{
    g_autoptr(GError) error = NULL;

    if (p->options.saved) {
        p->saved = saved_checkpoints_open(p->options.recording,
                                          p->program_sha256, &error);
        p->note = error ? g_strdup(error->message) : NULL;
    }
}

static void load_saved(struct player *p)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonNode) loaded = NULL;

    if (p->saved < 0) {
        return;
    }
    loaded = player_pass(p, SAVED_NAME, p->saved, &error) ?
             player_execute(p, "replay-checkpoints-load",
                            btrail_json_new("s:fdname", SAVED_NAME, NULL), -1,
                            QUERY_MS, &error) : NULL;
    p->note = error ? g_strdup(error->message) : NULL;
    close(p->saved);
    p->saved = -1;
}

struct player *player_start(const struct player_options *options,
                            GError **error)
{
    const struct recording *r = options->recording;
    g_autofree char *program = g_canonicalize_filename(
        options->program ? options->program : "", NULL);
    g_autofree char *port = NULL;
    g_autofree char *hash = NULL;
    g_auto(GStrv) arguments = NULL;
    struct emulator_options o = {
        .program = program,
        .recording = r->folder,
        .death_signal = SIGKILL,
        .input = options->terminal ? options->terminal->input : -1,
        .output = options->terminal ? options->terminal->output : -1,
        .cancel_fd = options->cancel_fd,
    };
    struct player *p;

    if (options->serial) {
        port = g_strconcat("file:", options->serial, NULL);
    }
    arguments = replay_arguments_new(r, options->terminal ? "stdio" : port,
                                     error);
    hash = arguments ? check_program(options, program, error) : NULL;
    if (!hash || (options->output &&
                  !output_collector_connect(options->output, &arguments,
                                            error))) {
        return NULL;
    }
    if (options->output) {
        o.inherit = output_collector_sockets(options->output);
    }
    o.arguments = arguments;
    p = g_new0(struct player, 1);
    p->options = *options;
    p->program_sha256 = g_steal_pointer(&hash);
    p->saved = -1;
    p->emulator = emulator_new(&o, error);
    if (!p->emulator) {
        player_free(p);
        return NULL;
    }
    open_saved(p);
    p->gdb_socket = emulator_path(p->emulator, "gdb");
    p->qmp_socket = emulator_path(p->emulator, "qmp");
    add_arguments(p);
    if (!emulator_start(p->emulator, error) ||
        !base_wait(r, p->emulator, error)) {
        player_free(p);
        return NULL;
    }
    load_saved(p);
    return p;
}

static bool stuck(struct player *p, uint64_t icount, GError **error)
{
    p->stuck = true;
    p->stuck_at = icount;
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "the replay does not get past instruction %" G_GUINT64_FORMAT
                ": QEMU waits for something that has not come again; what was "
                "recorded is not what is replayed", icount);
    return false;
}

void player_set_go_on(struct player *p, bool (*go_on)(void *opaque),
                      void *opaque)
{
    p->go_on = go_on;
    p->go_on_opaque = opaque;
}

bool player_halt(struct player *p, GError **error)
{
    g_autofree char *event = NULL;

    if (!emulator_command(p->emulator, "stop", NULL, error)) {
        return false;
    }
    /* There is none if it has just got there. */
    emulator_command(p->emulator, "replay-delete-break", NULL, NULL);
    while ((event = emulator_event(p->emulator, 0, NULL))) {
        p->ended |= !strcmp(event, "SHUTDOWN");
        g_clear_pointer(&event, g_free);
    }
    return true;
}

/* The next event; TIMEOUT after POLL_MS */
static char *next_event(struct player *p, GError **error)
{
    for (unsigned waited = 0;; waited += ASK_MS) {
        g_autoptr(GError) local = NULL;
        char *event = emulator_event(p->emulator, ASK_MS, &local);

        if (event) {
            return event;
        }
        if (waited + ASK_MS >= POLL_MS ||
            !g_error_matches(local, AGENT_ERROR,
                             AGENT_ERROR_TIMEOUT)) {
            g_propagate_error(error, g_steal_pointer(&local));
            return NULL;
        }
        if (p->go_on && !p->go_on(p->go_on_opaque)) {
            if (player_halt(p, error)) {
                agent_fail(error, AGENT_ERROR_CANCELLED,
                           "interrupted");
            }
            return NULL;
        }
    }
}

/* Waits until the guest is stopped. */
static bool wait_stopped(struct player *p, GError **error)
{
    uint64_t last = UINT64_MAX, icount, cpu = 0, now;
    uint64_t idle = 0, idle_cpu = 0; /* ms */

    for (;;) {
        g_autoptr(GError) local = NULL;
        g_autofree char *event = next_event(p, &local);

        if (event) {
            p->ended |= !strcmp(event, "SHUTDOWN");
            if (!strcmp(event, "STOP")) {
                return true;
            }
            continue;
        }
        if (!g_error_matches(local, AGENT_ERROR,
                             AGENT_ERROR_TIMEOUT)) {
            g_propagate_error(error, g_steal_pointer(&local));
            return false;
        }
        if (!emulator_icount(p->emulator, &icount, error)) {
            return false;
        }
        if (p->options.progress) {
            p->options.progress(icount, p->options.opaque);
        }
        now = emulator_cpu_ns(p->emulator);
        if (icount != last) {
            idle = idle_cpu = 0;
        } else {
            idle += POLL_MS;
            idle_cpu += MIN((now - MIN(cpu, now)) / 1000000, POLL_MS);
        }
        last = icount;
        cpu = now;
        if (idle >= STUCK_S * 1000 || idle_cpu >= STUCK_CPU_S * 1000) {
            return stuck(p, icount, error);
        }
    }
}

/* Discards what is known of earlier stops. */
static void drop_events(struct player *p)
{
    char *event;

    while ((event = emulator_event(p->emulator, 0, NULL))) {
        g_free(event);
    }
}

static bool past_end(uint64_t want, uint64_t got, GError **error)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "the recording ends at instruction %" G_GUINT64_FORMAT
                ", before %" G_GUINT64_FORMAT, got, want);
    return false;
}

static bool before_begin(const struct recording *r, uint64_t want,
                         GError **error)
{
    return agent_fail(error, AGENT_ERROR_PROTOCOL,
                      "what was before instruction %" G_GUINT64_FORMAT
                      " was not kept (--ring), and so not %"
                      G_GUINT64_FORMAT, r->begin.icount, want);
}

JsonNode *player_checkpoints(struct player *p, GError **error)
{
    return player_execute(p, "query-replay-checkpoints", NULL, -1, QUERY_MS,
                          error);
}

/* Is there no checkpoint, since its memory would be too small? */
static bool has_no_checkpoint(struct player *p)
{
    g_autoptr(JsonNode) node = player_checkpoints(p, NULL);
    JsonArray *list = node ? btrail_json_array(json_node_get_object(node),
                                               "icounts") : NULL;

    return list && !json_array_get_length(list);
}

/* It comes to @icount, or to the end, or stays where it is. */
static bool seek(struct player *p, uint64_t icount, bool back, GError **error)
{
    g_autoptr(GError) local = NULL;

    drop_events(p);
    if (emulator_command(p->emulator, "replay-seek",
                         btrail_json_new("U:icount", icount, NULL), &local)) {
        p->diverted = false;
        p->ended &= !back;
        return wait_stopped(p, error);
    }
    if (p->checkpoints && has_no_checkpoint(p)) {
        g_clear_error(&local);
        g_set_error(&local, AGENT_ERROR, AGENT_ERROR_COMMAND,
                    "there is no way back: no checkpoint of the guest's memory "
                    "fits into %" G_GUINT64_FORMAT " MiB; permit more",
                    p->options.checkpoints >> 20);
    }
    g_propagate_error(error, g_steal_pointer(&local));
    return false;
}

bool player_goto(struct player *p, uint64_t icount, GError **error)
{
    uint64_t at;

    if (icount < p->options.recording->begin.icount) {
        return before_begin(p->options.recording, icount, error);
    }
    if (icount > INT64_MAX) {
        return past_end(icount, p->options.recording->instructions, error);
    }
    if (!player_icount(p, &at, error)) {
        return false;
    }
    if (at == icount && !p->diverted) {
        return true;
    }
    if (icount > at && p->ended && !p->diverted) {
        return past_end(icount, at, error);
    }
    if (icount < at && !p->checkpoints) {
        return agent_fail(error, AGENT_ERROR_PROTOCOL,
                          "this replay only goes forward");
    }
    if (!seek(p, icount, icount < at, error) || !player_icount(p, &at, error)) {
        return false;
    }
    return at == icount || past_end(icount, at, error);
}

bool player_finish(struct player *p, GError **error)
{
    drop_events(p);
    return p->ended ||
           (emulator_command(p->emulator, "cont", NULL, error) &&
            wait_stopped(p, error));
}

bool player_divert(struct player *p, unsigned vcpu, GError **error)
{
    bool ok = emulator_command(p->emulator, "replay-divert",
                               btrail_json_new("U:cpu-index", (uint64_t)vcpu,
                                               NULL), error);

    p->diverted |= ok;
    return ok;
}

bool player_go_live(struct player *p, GError **error)
{
    if (p->checkpoints &&
        !emulator_command(p->emulator, "object-del",
                          btrail_json_new("s:id", OBJECT, NULL), error)) {
        return false;
    }
    p->checkpoints = false;
    return emulator_command(p->emulator, "replay-go-live", NULL, error);
}

bool player_run(struct player *p, GError **error)
{
    return emulator_command(p->emulator, "cont", NULL, error);
}

bool player_wait_end(struct player *p, GError **error)
{
    for (;;) {
        g_autoptr(GError) local = NULL;
        g_autofree char *event = emulator_event(p->emulator, POLL_MS, &local);

        if (!g_strcmp0(event, "SHUTDOWN") ||
            agent_is_cancelled(local)) {
            return true;
        }
        if (!event && !g_error_matches(local, AGENT_ERROR,
                                       AGENT_ERROR_TIMEOUT)) {
            g_propagate_error(error, g_steal_pointer(&local));
            return false;
        }
    }
}

bool player_icount(struct player *p, uint64_t *icount, GError **error)
{
    return emulator_icount(p->emulator, icount, error);
}

bool player_diverged(const struct player *p, uint64_t *icount)
{
    g_autofree char *said = emulator_output(p->emulator);
    const char *number = strstr(said, SYNC_ERROR);

    *icount = p->stuck ? p->stuck_at : 0;
    if (number && !p->stuck) {
        *icount = g_ascii_strtoull(number + strlen(SYNC_ERROR), NULL, 10);
    }
    return p->stuck || number;
}

const char *player_note(const struct player *p)
{
    return p->note;
}

const struct recording *player_recording(const struct player *p)
{
    return p->options.recording;
}

const char *player_program_sha256(const struct player *p)
{
    return p->program_sha256;
}

const char *player_gdb_socket(const struct player *p)
{
    return p->gdb_socket;
}

const char *player_qmp_socket(const struct player *p)
{
    return p->qmp_socket;
}

JsonNode *player_execute(struct player *p, const char *command,
                         JsonObject *arguments, int fd, int timeout_ms,
                         GError **error)
{
    return emulator_execute(p->emulator, command, arguments, fd, timeout_ms,
                            error);
}

bool player_pass(struct player *p, const char *name, int fd, GError **error)
{
    g_autoptr(JsonNode) got = player_execute(
        p, "getfd", btrail_json_new("s:fdname", name, NULL), fd, QUERY_MS,
        error);

    return got;
}

char *player_hmp(struct player *p, const char *line, GError **error)
{
    return emulator_hmp(p->emulator, line, error);
}

void player_free(struct player *p)
{
    if (p) {
        emulator_free(p->emulator);
        g_free(p->gdb_socket);
        g_free(p->qmp_socket);
        g_free(p->program_sha256);
        g_free(p->note);
        if (p->saved >= 0) {
            close(p->saved);
        }
        g_free(p);
    }
}
