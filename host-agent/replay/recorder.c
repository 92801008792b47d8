/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recording a guest: see recorder.h
 */

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/base.h"
#include "replay/copy-file.h"
#include "replay/devices.h"
#include "replay/emulator.h"
#include "replay/known-qemu.h"
#include "replay/machine.h"
#include "replay/recorder.h"
#include "replay/remove-folder.h"
#include "replay/ring.h"
#include "util/clock.h"
#include "util/json.h"

#define POLL_MS         1000
#define QUIT_MS         60000

struct recorder {
    const struct recorder_options *options;
    struct machine *machine;
    struct recording *recording;
    struct ring *ring;          /* NULL if all is kept */
    char *program;
    const char *note;           /* of its devices, or NULL */
    uint64_t started;
    bool running;               /* the guest has begun */
    bool full;                  /* a disk of the host takes no more */
    GError *not_saved;          /* why the ring does not continue */
};

static bool make_folder(const char *path, GError **error)
{
    if (mkdir(path, 0700)) {
        return agent_error_errno(error, path);
    }
    return true;
}

static bool is_permitted(const struct recorder *r, GError **error)
{
    return !r->options->copied || r->options->copied(r->options->opaque,
                                                     error);
}

static bool make_folders(const struct recorder *r, GError **error)
{
    g_autofree char *files = recording_path(r->recording,
                                            RECORDING_FILES);
    g_autofree char *firmware = recording_path(r->recording,
                                               MACHINE_FIRMWARE);

    return make_folder(r->recording->folder, error) &&
           make_folder(files, error) && make_folder(firmware, error);
}

/* Adds a file that is in the folder. */
static bool add_file(struct recorder *r, const char *source, const char *name,
                     GError **error)
{
    g_autofree char *path = recording_path(r->recording, name);
    g_autofree char *hash = NULL;
    uint64_t size;

    hash = recording_hash(path, &size, error);
    if (!hash) {
        return false;
    }
    recording_add_file(r->recording, name, source, size, hash);
    return true;
}

static bool copy(struct recorder *r, const char *source, const char *name,
                 GError **error)
{
    g_autofree char *path = recording_path(r->recording, name);

    return copy_file(source, path, error);
}

static bool copy_files(struct recorder *r, GError **error)
{
    for (unsigned i = 0; i < r->machine->files->len; i++) {
        const struct machine_file *f = g_ptr_array_index(r->machine->files,
                                                         i);

        if (!copy(r, f->source, f->name, error)) {
            return false;
        }
    }
    return true;
}

/*
 * Saves the guest that runs; it is stopped then, and its images do not
 * change.
 */
static bool save_base(struct recorder *r, GError **error)
{
    g_autofree char *path = recording_path(r->recording,
                                           RECORDING_BASE);

    if (!r->options->running) {
        return true;
    }
    r->recording->base = g_strdup(RECORDING_BASE);
    return running_guest_check_images(r->options->running, r->machine->files,
                                      error) &&
           running_guest_save(r->options->running, path, error);
}

static bool add_files(struct recorder *r, GError **error)
{
    for (unsigned i = 0; i < r->machine->files->len; i++) {
        const struct machine_file *f = g_ptr_array_index(r->machine->files,
                                                         i);

        if (!add_file(r, f->source, f->name, error)) {
            return false;
        }
    }
    return !r->recording->base ||
           add_file(r, NULL, RECORDING_BASE, error);
}

/*
 * The firmware that QEMU has loaded, from its trace: "load_file name bios.bin
 * location /usr/share/..."
 */
static bool add_firmware(struct recorder *r, const char *output,
                         GError **error)
{
    g_auto(GStrv) lines = g_strsplit(output, "\n", -1);

    for (char **l = lines; *l; l++) {
        const char *name = strstr(*l, "load_file name ");
        const char *location = name ? strstr(name, " location ") : NULL;
        g_autofree char *base = NULL, *inside = NULL, *path = NULL;

        if (!location) {
            continue;
        }
        name += strlen("load_file name ");
        base = g_strndup(name, location - name);
        location += strlen(" location ");
        inside = g_build_filename(MACHINE_FIRMWARE, base, NULL);
        path = recording_path(r->recording, inside);
        if (strchr(base, '/') || !access(path, F_OK) ||
            g_str_has_prefix(location, "recording/")) {
            continue;
        }
        if (!copy(r, location, inside, error) ||
            !add_file(r, location, inside, error)) {
            return false;
        }
    }
    return true;
}

static struct emulator *make_emulator(struct recorder *r,
                                      const GPtrArray *arguments,
                                      bool guest, GError **error)
{
    g_autoptr(GPtrArray) list = g_ptr_array_new();
    struct emulator_options o = {
        .program = r->program,
        .recording = r->recording->folder,
        /* It finishes its log. */
        .death_signal = guest ? SIGTERM : SIGKILL,
        .input = guest ? r->options->input : -1,
        .output = guest ? r->options->output : -1,
        .cancel_fd = r->options->stop_fd,
    };

    for (unsigned i = 0; i < arguments->len; i++) {
        g_ptr_array_add(list, g_ptr_array_index(arguments, i));
    }
    g_ptr_array_add(list, NULL);
    o.arguments = (char *const *)list->pdata;
    return emulator_new(&o, error);
}

/* Starts the machine without the guest, to see what it is made of. */
static bool examine(struct recorder *r, GError **error)
{
    struct emulator *e = make_emulator(r, r->machine->replay, false, error);
    g_autofree char *qtree = NULL, *output = NULL;
    bool ok;

    if (!e) {
        return false;
    }
    for (unsigned i = 0; i < r->machine->firmware->len; i++) {
        emulator_add(e, "-L");
        emulator_add(e, "%s", (char *)g_ptr_array_index(r->machine->firmware,
                                                        i));
    }
    emulator_add(e, "-icount");
    emulator_add(e, MACHINE_ICOUNT);
    emulator_add(e, "-trace");
    emulator_add(e, "load_file");
    emulator_add(e, "-S");
    ok = emulator_start(e, error);
    qtree = ok ? emulator_hmp(e, "info qtree", error) : NULL;
    ok = qtree && devices_check(qtree, &r->note, error);
    if (ok) {
        r->recording->qemu_version = g_strdup(emulator_version(e));
        output = emulator_output(e);
        ok = add_firmware(r, output, error);
    }
    emulator_free(e);
    return ok;
}

static bool describe(struct recorder *r, GError **error)
{
    struct recording *to = r->recording;

    to->created = g_get_real_time() / G_USEC_PER_SEC;
    to->qemu = g_strdup(r->program);
    to->qemu_sha256 = recording_hash(r->program, NULL, error);
    to->icount = g_strdup(MACHINE_ICOUNT);
    to->arguments = g_new0(char *, r->machine->replay->len + 1);
    for (unsigned i = 0; i < r->machine->replay->len; i++) {
        to->arguments[i] = g_strdup(g_ptr_array_index(r->machine->replay, i));
    }
    if (to->qemu_sha256) {
        known_qemu_add(to->qemu_sha256, r->program);
    }
    return to->qemu_sha256;
}

/*
 * Is the guest stopped for good?  It may be somebody else's "stop", or ours to
 * save it.
 */
static bool has_ended(struct recorder *r, struct emulator *e)
{
    g_autoptr(JsonNode) node = emulator_execute(e, "query-status", NULL, -1,
                                                QUIT_MS, NULL);
    const char *status = node && JSON_NODE_HOLDS_OBJECT(node) ?
        btrail_json_string(json_node_get_object(node), "status") : NULL;
    static const char *const others[] = {
        "running", "paused", "suspended", "finish-migrate", "postmigrate", NULL
    };

    r->full = !g_strcmp0(status, "io-error");
    return !status || !g_strv_contains(others, status);
}

/* Saves the guest if it is time; false if the recording ends here. */
static bool turn(struct recorder *r, struct emulator *e)
{
    GError *error = NULL;

    if (!r->ring || ring_wait_ms(r->ring) || ring_turn(r->ring, &error)) {
        return true;
    }
    if (agent_is_cancelled(error) || has_ended(r, e)) {
        g_error_free(error);
    } else {
        r->not_saved = error;
    }
    return false;
}

/* Waits until the machine is switched off, or is to be. */
static bool wait_for_end(struct recorder *r, struct emulator *e, GError **error)
{
    while (turn(r, e)) {
        int wait_ms = r->ring ? MIN(POLL_MS, ring_wait_ms(r->ring)) : POLL_MS;
        g_autoptr(GError) local = NULL;
        g_autofree char *event = emulator_event(e, wait_ms, &local);

        if (event && !strcmp(event, "STOP") && has_ended(r, e)) {
            return true;
        }
        if (event || g_error_matches(local, AGENT_ERROR,
                                     AGENT_ERROR_TIMEOUT)) {
            continue;
        }
        if (agent_is_cancelled(local)) {
            return true;
        }
        g_set_error(error, local->domain, local->code,
                    "%s; %s can be replayed up to shortly before that",
                    local->message, r->recording->folder);
        return false;
    }
    return true;
}

/* Ends QEMU, which then finishes its log. */
static bool finish(struct recorder *r, struct emulator *e, GError **error)
{
    g_autofree char *output = NULL;
    int status;

    /* The signal is still there to be read. */
    emulator_set_cancel(e, -1);
    if (!emulator_command(e, "stop", NULL, error) ||
        !emulator_icount(e, &r->recording->instructions, error) ||
        !emulator_command(e, "quit", NULL, error)) {
        return false;
    }
    if (!emulator_wait(e, QUIT_MS, &status)) {
        return agent_fail(error, AGENT_ERROR_COMMAND, "QEMU does not end");
    }
    output = g_strchomp(emulator_output(e));
    if (WIFSIGNALED(status)) {
        return agent_fail(error, AGENT_ERROR_COMMAND,
                          "QEMU has ended by signal %d: %s", WTERMSIG(status),
                          output);
    }
    /* The guest can choose a status, with isa-debug-exit for instance; QEMU
     * says why it fails. */
    return !WEXITSTATUS(status) || !*output ||
           agent_fail(error, AGENT_ERROR_COMMAND,
                      "QEMU has ended with status %d: %s",
                      WEXITSTATUS(status), output);
}

/* The recording is whole up to there. */
static bool check_saved(struct recorder *r, GError **error)
{
    if (!r->not_saved) {
        return true;
    }
    g_propagate_prefixed_error(error, g_steal_pointer(&r->not_saved),
                               "the recording ends here, and can be replayed "
                               "up to here, since the guest could not be "
                               "saved: ");
    return false;
}

/* The recording is not complete, and whole up to there. */
static bool check_disks(const struct recorder *r, struct emulator *e,
                        GError **error)
{
    g_autofree char *output = r->full ? emulator_output(e) : NULL;

    if (!r->full) {
        return true;
    }
    return agent_fail(error, AGENT_ERROR_OUTPUT,
                      "the recording ends where a disk of this host has "
                      "taken no more, that of %s or of the guest's "
                      "overlays in %s, and can be replayed up to there: "
                      "%s", r->recording->folder, g_get_tmp_dir(),
                      *output ? g_strstrip(output) : "no space left");
}

static bool run_guest(struct recorder *r, struct emulator *e, GError **error)
{
    bool prepared = r->recording->base || r->ring;

    emulator_add(e, "-icount");
    emulator_add(e, MACHINE_ICOUNT ",rr=record,rrfile=recording/"
                 RECORDING_LOG);
    emulator_add(e, "-no-shutdown");
    base_add(r->recording, e);
    if (prepared) {
        emulator_add(e, "-S");
    }
    r->started = clock_ns();
    if (!emulator_start(e, error) || !base_wait(r->recording, e, error) ||
        (r->ring && !ring_prepare(r->ring, error)) ||
        (prepared && !emulator_command(e, "cont", NULL, error))) {
        return false;
    }
    if (r->ring) {
        ring_begin(r->ring);
    }
    r->running = true;
    if (r->options->started) {
        r->options->started(r->options->opaque, r->note ?: r->machine->note);
    }
    return wait_for_end(r, e, error) && finish(r, e, error) &&
           check_disks(r, e, error) && check_saved(r, error);
}

static bool record(struct recorder *r, GError **error)
{
    struct recording *to = r->recording;
    g_autofree char *log = recording_path(to, RECORDING_LOG);
    struct emulator *e;
    bool ok;

    if (!recording_save(to, error)) {
        return false;
    }
    e = make_emulator(r, r->machine->record, true, error);
    if (e && r->options->keep_ns) {
        r->ring = ring_new(to, e, r->options->keep_ns);
    }
    ok = e && run_guest(r, e, error);
    emulator_free(e);
    if (r->ring) {
        ring_end(r->ring);
        g_clear_pointer(&r->ring, ring_free);
    }
    if (!ok) {
        return false;
    }
    to->duration_ns = clock_ns() - r->started;
    to->log.sha256 = recording_hash(log, &to->log.size, error);
    to->complete = to->log.sha256;
    return to->complete && recording_save(to, error);
}

struct recording *recorder_run(const struct recorder_options *options,
                               GError **error)
{
    struct recorder r = {
        .options = options,
        .machine = machine_new(options->arguments, error),
    };
    bool ok;

    if (!r.machine) {
        return NULL;
    }
    r.program = g_canonicalize_filename(options->program, NULL);
    r.recording = recording_new(options->folder);
    if (!access(r.recording->folder, F_OK)) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_OUTPUT,
                    "%s: it exists; choose another folder with -o",
                    r.recording->folder);
        ok = false;
    } else {
        ok = make_folders(&r, error) && save_base(&r, error) &&
             copy_files(&r, error) && is_permitted(&r, error) &&
             add_files(&r, error) && examine(&r, error) &&
             describe(&r, error) && record(&r, error);
        if (!ok && !r.running) {
            remove_folder(r.recording->folder);
        }
    }
    machine_free(r.machine);
    g_free(r.program);
    g_clear_error(&r.not_saved);
    if (!ok) {
        g_clear_pointer(&r.recording, recording_free);
    }
    return r.recording;
}
