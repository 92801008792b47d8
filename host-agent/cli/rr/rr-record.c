/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr record: see rr.h
 */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/rr/rr-record.h"
#include "cli/rr/rr-terminal.h"
#include "cli/rr/rr.h"
#include "replay/recorder.h"
#include "util/json.h"

/* The guest is stopped each time that it is saved. */
#define LEAST_RING_NS   UINT64_C(1000000000)
#define MOST_RING_NS    (3600000 * LEAST_RING_NS)

struct rr_recording {
    struct rr_options common;
    char *connect;
    char *output;
    char *qmp;
    char *ring;
    uint64_t keep_ns;
    gboolean pause;
    struct rr_domain *domain;   /* NULL for a command line */
    struct running_guest *running;
};

static void say_started(void *opaque, const char *note)
{
    const struct rr_recording *r = opaque;

    if (!r->common.quiet) {
        cli_fprintf(stderr, "recording into %s; Ctrl-C ends it\n", r->output);
        if (note) {
            cli_fprintf(stderr, "%s\n", note);
        }
    }
}

/* What differs from the domain's definition */
static void add_changes(const struct rr_recording *r, JsonObject *o)
{
    const GPtrArray *changes = r->domain->replayable.changes;
    JsonArray *list = json_array_new();

    for (unsigned i = 0; i < changes->len; i++) {
        json_array_add_string_element(list, g_ptr_array_index(changes, i));
    }
    json_object_set_array_member(o, "changes", list);
}

static void print_changes(const struct rr_domain *d)
{
    const GPtrArray *list = d->replayable.changes;

    if (list->len) {
        cli_fprintf(stderr, "for the recording, and not in its definition, "
                    "%s has:\n", virDomainGetName(d->guest.domain));
    }
    for (unsigned i = 0; i < list->len; i++) {
        cli_fprintf(stderr, "  %s\n", (char *)g_ptr_array_index(list, i));
    }
}

/*
 * The images are copied: a domain must still be off, and a guest that runs can
 * continue.
 */
static bool is_copied(void *opaque, GError **error)
{
    const struct rr_recording *r = opaque;

    if (r->running) {
        return r->pause || running_guest_resume(r->running, error);
    }
    return !r->domain || rr_domain_is_off(r->domain, error);
}

static void print_result(const struct rr_recording *r,
                         const struct recording *made)
{
    JsonObject *o;

    if (r->common.json) {
        o = btrail_json_new("s:folder", made->folder,
                            "U:begin", made->begin.icount,
                            "U:instructions", made->instructions,
                            "d:seconds", made->duration_ns / 1e9,
                            "U:log_bytes", made->log.size, NULL);
        if (r->domain) {
            add_changes(r, o);
        }
        if (r->running && !r->pause) {
            btrail_json_add(o, "d:paused_seconds",
                            running_guest_seconds(r->running), NULL);
        }
        cli_print_json(o);
    } else if (!r->common.quiet) {
        cli_fprintf(stderr, "%s: %.2f G instructions in %.1f s, %.1f MB of "
                    "log; backtrail rr replay %s\n", r->output,
                    made->instructions / 1e9, made->duration_ns / 1e9,
                    made->log.size / 1e6, r->output);
    }
}

static bool uses_stdio(char *const *arguments)
{
    bool serial = false;

    for (; *arguments; arguments++) {
        serial |= strstr(*arguments, "stdio") ||
                  !strcmp(*arguments, "-nographic");
    }
    return serial;
}

/* The path of QEMU, to be freed; NULL after an error message */
static char *find_qemu(const struct rr_options *o, const char *given)
{
    const char *name = o->qemu;

    if (!name && given && strchr(given, '/')) {
        name = given;
    }
    if (!name) {
        name = rr_default_qemu();
    }
    if (access(name, X_OK)) {
        cli_error("%s: %s; name a QEMU with Backtrail's patches with --qemu "
                  "(package backtrail-qemu, or scripts/build qemu)", name,
                  g_strerror(errno));
        return NULL;
    }
    return g_strdup(name);
}

static int record(struct rr_recording *r, const char *qemu,
                  char *const *arguments)
{
    struct rr_terminal terminal = RR_TERMINAL_CLOSED;
    bool stdio = uses_stdio(arguments);
    struct recorder_options o = {
        .folder = r->output,
        .program = qemu,
        .arguments = arguments,
        .input = -1,
        .output = -1,
        .stop_fd = r->common.signals,
        .keep_ns = r->keep_ns,
        .running = r->running,
        .copied = is_copied,
        .started = say_started,
        .opaque = r,
    };
    g_autoptr(GError) error = NULL;
    struct recording *made;
    int code = CLI_OK;

    if (stdio && rr_terminal_open(&terminal)) {
        o.input = terminal.input;
        o.output = terminal.screen;
        rr_terminal_start(&terminal);
    }
    made = recorder_run(&o, &error);
    rr_terminal_close(&terminal);
    if (made) {
        print_result(r, made);
        recording_free(made);
    } else {
        cli_error("%s", error->message);
        code = CLI_FAILED;
    }
    return code;
}

static char *default_name(void)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_local();

    return g_date_time_format(now, "recording-%Y%m%d-%H%M%S");
}

/* Takes what follows "--" from the arguments; NULL if that is not there. */
static char **take_rest(int *argc, char **argv)
{
    for (int i = 1; i < *argc; i++) {
        if (!strcmp(argv[i], "--")) {
            argv[i] = NULL;
            *argc = i;
            return argv + i + 1;
        }
    }
    return NULL;
}

static int record_arguments(struct rr_recording *r, const char *given,
                            char *const *arguments)
{
    g_autofree char *qemu = find_qemu(&r->common, given);
    int code = CLI_FAILED;

    if (!qemu || !rr_open(&r->common, NULL, &code)) {
        return code;
    }
    if (!r->output) {
        r->output = default_name();
    }
    return record(r, qemu, arguments);
}

static int record_running(struct rr_recording *r)
{
    g_autoptr(GError) error = NULL;
    int code = CLI_FAILED;

    if (!rr_open(&r->common, NULL, &code)) {
        return code;
    }
    r->running = r->domain ?
        rr_domain_guest(r->domain, r->common.signals, &error) :
        running_guest_open(r->qmp, r->common.signals, &error);
    if (!r->running) {
        return rr_failed(error);
    }
    if (!r->output) {
        r->output = default_name();
    }
    code = record(r, r->common.qemu ? r->common.qemu :
                  running_guest_program(r->running),
                  running_guest_arguments(r->running));
    /* If the recording failed, the guest is left as it was found. */
    running_guest_free(r->running, !r->pause || code != CLI_OK);
    return code;
}

static int record_domain(struct rr_recording *r, const char *name,
                         char *const *added)
{
    struct rr_domain domain;
    int code = CLI_FAILED;

    if (rr_domain_open(&domain, r->connect, name, added)) {
        r->domain = &domain;
        if (!r->common.quiet) {
            print_changes(&domain);
        }
        if (domain.emulator) {
            code = record_running(r);
        } else if (r->pause) {
            cli_error("--pause is for a guest that runs, and %s is shut off",
                      name);
            code = CLI_USAGE;
        } else {
            code = record_arguments(r, NULL, domain.arguments);
        }
    }
    rr_domain_close(&domain);
    return code;
}

int rr_record(int argc, char **argv)
{
    struct rr_recording r = { .common.signals = -1 };
    const GOptionEntry entries[] = {
        { "connect", 'c', 0, G_OPTION_ARG_STRING, &r.connect,
          "libvirt's URI (default: as for virsh)", "URI" },
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &r.output,
          "folder to make (default: recording-DATE-TIME)", "FOLDER" },
        { "qemu", 0, 0, G_OPTION_ARG_FILENAME, &r.common.qemu,
          "the QEMU to record with (default: $BACKTRAIL_QEMU, or the one that "
          "is installed)", "PATH" },
        { "qmp", 0, 0, G_OPTION_ARG_FILENAME, &r.qmp,
          "record a copy of the guest that runs in the QEMU with this monitor, "
          "from now on", "SOCKET" },
        { "pause", 0, 0, G_OPTION_ARG_NONE, &r.pause,
          "leave the guest that runs paused; only its copy continues", NULL },
        { "ring", 0, 0, G_OPTION_ARG_STRING, &r.ring,
          "keep only what was last, at least for this long", "DURATION" },
        { "json", 0, 0, G_OPTION_ARG_NONE, &r.common.json,
          "print the result as JSON", NULL },
        { "quiet", 'q', 0, G_OPTION_ARG_NONE, &r.common.quiet,
          "print errors only", NULL },
        { NULL }
    };
    char **arguments = take_rest(&argc, argv), *none = NULL;
    const char *given = NULL;
    int code = CLI_USAGE;

    if (!cli_parse(&argc, &argv, entries, CLI_OPTIONAL,
                   "DOMAIN | [DOMAIN] -- QEMU-ARGUMENT... | --qmp=SOCKET",
                   "Record a guest into a folder, from when it is switched "
                   "on: a domain of libvirt\nthat is shut off, or the machine "
                   "of a command line of QEMU; or a copy of a\nguest that "
                   "runs, from now on: a domain, or one of a QEMU with a "
                   "monitor.")) {
        goto out;
    }
    if (r.ring && !cli_parse_duration("--ring", r.ring, &r.keep_ns)) {
        goto out;
    }
    if (r.ring && (r.keep_ns < LEAST_RING_NS || r.keep_ns > MOST_RING_NS)) {
        cli_error("--ring %s: from 1s to 1000h", r.ring);
        goto out;
    }
    cli_set_records("backtrail: ending before the recording is complete; "
                    "it can be replayed up to here, or shortly before\n");
    if (r.qmp ? argc > 1 || arguments : r.pause && argc == 1) {
        cli_error(r.qmp ? "--qmp SOCKET names a guest that runs, which has its "
                  "arguments; leave out what follows" :
                  "--pause is for a guest that runs, which DOMAIN or "
                  "--qmp SOCKET names");
    } else if (r.qmp) {
        code = record_running(&r);
    } else if (argc > 1) {
        code = record_domain(&r, argv[1], arguments ? arguments : &none);
    } else if (arguments && *arguments) {
        /* A whole command line has the program, too. */
        if (strstr(*arguments, "qemu-system-") && **arguments != '-') {
            given = *arguments++;
        }
        code = record_arguments(&r, given, arguments);
    } else {
        cli_error("a domain of libvirt, or QEMU's arguments after --, is "
                  "missing");
    }
out:
    rr_clear(&r.common);
    g_free(r.connect);
    g_free(r.qmp);
    g_free(r.ring);
    g_free(r.output);
    return code;
}
