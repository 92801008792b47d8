/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record: trace a guest into a file
 */

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/record.h"
#include "util/json.h"

static bool add_vcpus(struct record_request *r, const char *text)
{
    bool vcpus[BTRAIL_MAX_VCPUS];
    JsonArray *array;

    if (!cli_parse_vcpus("--vcpus", text, vcpus)) {
        return false;
    }
    array = json_array_new();
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (vcpus[i]) {
            json_array_add_int_element(array, i);
        }
    }
    json_object_set_array_member(r->arguments, "vcpus", array);
    json_object_set_string_member(r->metadata, "vcpu_filter", text);
    return true;
}

static bool add_cr3s(struct record_request *r, char **texts)
{
    GArray *cr3s;
    JsonArray *array, *asked;

    if (!cli_parse_cr3s(texts, &cr3s)) {
        return false;
    }
    if (cr3s) {
        array = json_array_new();
        asked = json_array_new();
        for (unsigned i = 0; i < cr3s->len; i++) {
            json_array_add_int_element(array,
                                       g_array_index(cr3s, uint64_t, i));
            json_array_add_string_element(asked, texts[i]);
        }
        json_object_set_array_member(r->arguments, "cr3", array);
        json_object_set_array_member(r->metadata, "cr3_filter", asked);
        g_array_unref(cr3s);
    }
    return true;
}

/* A chunk must fit. */
#define MIN_FILE_SIZE   (1u << 20)

static bool parse_file_size(const char *option, const char *text,
                            uint64_t *value)
{
    if (!text) {
        return true;
    }
    if (!cli_parse_size(option, text, value)) {
        return false;
    }
    if (*value < MIN_FILE_SIZE) {
        cli_error("%s: '%s' is below 1M", option, text);
        return false;
    }
    return true;
}

static bool parse_sync(const char *text, struct btrail_store_options *options)
{
    if (!text || !strcmp(text, "end")) {
        options->sync = BTRAIL_SYNC_END;
        return true;
    }
    if (!strcmp(text, "none")) {
        options->sync = BTRAIL_SYNC_NONE;
        return true;
    }
    if (!g_ascii_isdigit(*text)) {
        cli_error("--fsync: '%s' is not none, end or a time", text);
        return false;
    }
    options->sync = BTRAIL_SYNC_INTERVAL;
    return cli_parse_duration("--fsync", text, &options->sync_interval);
}

/* Options about how the file is written */
static bool check_store_options(struct record_request *r)
{
    struct btrail_store_options *s = &r->store;

    s->path = r->output;
    s->replace = r->force;
    if (r->split && r->ring) {
        cli_error("--split and --ring exclude each other: a ring is split, "
                  "too");
        return false;
    }
    if (!parse_file_size("--split", r->split, &s->part_size) ||
        !parse_file_size("--ring", r->ring, &s->ring_size) ||
        !parse_sync(r->fsync, s)) {
        return false;
    }
    if (r->split) {
        json_object_set_int_member(r->metadata, "split", s->part_size);
    }
    if (r->ring) {
        json_object_set_int_member(r->metadata, "ring", s->ring_size);
    }
    return true;
}

/* Checks that the options suit the way to the guest. */
static bool check_way(const struct record_request *o)
{
    if (o->domain && o->qmp) {
        cli_error("either DOMAIN or --qmp SOCKET: the service traces guests "
                  "of libvirt");
        return false;
    }
    if (o->domain && (o->force || o->attach || o->ring || o->fsync ||
                      o->buffer_size || o->agent_timeout)) {
        cli_error("--force, --attach, --ring, --fsync, --buffer-size and "
                  "--agent-timeout need --qmp: the service writes the trace "
                  "of a domain");
        return false;
    }
    if (!o->domain && (o->connect || o->processes)) {
        cli_error("--connect and --process need a DOMAIN, which the service "
                  "traces");
        return false;
    }
    if (!o->domain && !o->qmp) {
        cli_error("missing DOMAIN, a guest of libvirt, or --qmp SOCKET, a "
                  "QEMU started with -qmp unix:SOCKET,server=on,wait=off");
        return false;
    }
    return true;
}

/* Turns options into arguments of branch-trace-start. */
static bool check_options(struct record_request *o)
{
    uint64_t number;

    if (!check_way(o)) {
        return false;
    }
    if (o->attach && (o->session || o->vcpus || o->user || o->kernel ||
                      o->cr3 || o->overflow || o->buffer_size ||
                      o->agent_timeout)) {
        cli_error("--attach takes over a capture as it is; it can be combined "
                  "with --output, --split, --ring, --fsync, --names, "
                  "--duration, --force and --quiet only");
        return false;
    }
    if (!o->session) {
        o->session = g_strdup_printf("record-%d", (int)getpid());
    }
    if (strlen(o->session) >= BTRAIL_CAPTURE_NAME_MAX) {
        cli_error("--session: a name has at most %d bytes",
                  BTRAIL_CAPTURE_NAME_MAX - 1);
        return false;
    }
    if (o->overflow && btrail_overflow_value(o->overflow) < 0) {
        cli_error("--overflow: '%s' is not pause, drop or overwrite",
                  o->overflow);
        return false;
    }
    btrail_json_add(o->arguments, "S:privilege", o->user == o->kernel ? NULL :
                    o->user ? "user" : "kernel", "S:overflow", o->overflow,
                    NULL);
    if (o->buffer_size) {
        if (!cli_parse_size("--buffer-size", o->buffer_size, &number)) {
            return false;
        }
        json_object_set_int_member(o->arguments, "buffer-size", number);
    }
    if (o->agent_timeout) {
        if (!cli_parse_u64("--agent-timeout", o->agent_timeout, &number)) {
            return false;
        }
        json_object_set_int_member(o->arguments, "agent-timeout", number);
    }
    if (o->names && strcmp(o->names, "auto") && strcmp(o->names, "all") &&
        strcmp(o->names, "off")) {
        cli_error("--names: '%s' is not auto, all or off", o->names);
        return false;
    }
    if (o->duration) {
        if (!cli_parse_duration("--duration", o->duration, &o->duration_ns)) {
            return false;
        }
        if (!o->duration_ns) {
            cli_error("--duration: 0 is too short");
            return false;
        }
    }
    return (!o->vcpus || add_vcpus(o, o->vcpus)) && add_cr3s(o, o->cr3) &&
           check_store_options(o);
}

static void add_processes(JsonObject *command, char **texts)
{
    JsonArray *array = json_array_new();

    for (; *texts; texts++) {
        guint64 pid;

        if (g_ascii_string_to_unsigned(*texts, 10, 0, G_MAXINT, &pid, NULL)) {
            json_array_add_int_element(array, pid);
        } else {
            json_array_add_string_element(array, *texts);
        }
    }
    json_object_set_array_member(command, "processes", array);
}

/* The service takes the arguments of branch-trace-start, and more. */
static void add_service_arguments(struct record_request *r)
{
    g_autofree char *owner = g_strdup_printf("%s@%s", g_get_user_name(),
                                             g_get_host_name());

    btrail_json_add(r->arguments, "s:do", "start", "s:session", r->session,
                    "s:owner", owner, "S:file", r->output,
                    "S:names", r->names, NULL);
    if (r->processes) {
        add_processes(r->arguments, r->processes);
    }
    if (r->duration) {
        json_object_set_double_member(r->arguments, "duration",
                                      r->duration_ns / 1e9);
    }
    if (r->split) {
        json_object_set_int_member(r->arguments, "split", r->store.part_size);
    }
}

static int run_record(struct record_request *r)
{
    if (!check_options(r)) {
        return CLI_USAGE;
    }
    /* A file that is too large is an error like a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    r->signal_fd = cli_open_signals();
    if (r->signal_fd < 0) {
        return CLI_FAILED;
    }
    if (r->domain) {
        add_service_arguments(r);
        return record_domain(r);
    }
    json_object_set_string_member(r->arguments, "capture", r->session);
    return record_qmp(r);
}

int cmd_record(int argc, char **argv)
{
    struct record_request r = { .signal_fd = -1 };
    const GOptionEntry entries[] = {
        { "connect", 'c', 0, G_OPTION_ARG_STRING, &r.connect,
          "with DOMAIN: libvirt's URI (default: as for virsh)", "URI" },
        { "qmp", 0, 0, G_OPTION_ARG_FILENAME, &r.qmp,
          "unix socket of QEMU's QMP monitor, for a guest that libvirt does "
          "not run", "SOCKET" },
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &r.output,
          "output file (default: trace.btrail); with DOMAIN: its name in the "
          "domain's folder on its host (default: session and time)", "FILE" },
        { "force", 'f', 0, G_OPTION_ARG_NONE, &r.force,
          "replace the file if it exists", NULL },
        { "session", 0, 0, G_OPTION_ARG_STRING, &r.session,
          "name of the session", "NAME" },
        { "vcpus", 0, 0, G_OPTION_ARG_STRING, &r.vcpus,
          "trace these vCPUs (default: all)", "LIST" },
        { "user", 0, 0, G_OPTION_ARG_NONE, &r.user,
          "trace branches in user mode", NULL },
        { "kernel", 0, 0, G_OPTION_ARG_NONE, &r.kernel,
          "trace branches in kernel mode (default: both)", NULL },
        { "cr3", 0, 0, G_OPTION_ARG_STRING_ARRAY, &r.cr3,
          "trace this address space; can be repeated (default: all)",
          "ADDR" },
        { "process", 0, 0, G_OPTION_ARG_STRING_ARRAY, &r.processes,
          "with DOMAIN: trace this process; can be repeated (default: all)",
          "NAME|PID" },
        { "overflow", 0, 0, G_OPTION_ARG_STRING, &r.overflow,
          "when the buffer is full: pause the vCPU, drop new records, or "
          "overwrite old ones (default: pause)", "POLICY" },
        { "buffer-size", 0, 0, G_OPTION_ARG_STRING, &r.buffer_size,
          "buffer per vCPU (default: 2M)", "SIZE" },
        { "agent-timeout", 0, 0, G_OPTION_ARG_STRING, &r.agent_timeout,
          "milliseconds that a paused guest waits if this command hangs or "
          "dies (default: 5000; 0: for ever)", "MS" },
        { "duration", 0, 0, G_OPTION_ARG_STRING, &r.duration,
          "stop after this time (default: at Ctrl-C, or with the guest)",
          "TIME" },
        { "split", 0, 0, G_OPTION_ARG_STRING, &r.split,
          "continue in another file (x.1.btrail after x.btrail) before one "
          "gets larger", "SIZE" },
        { "ring", 0, 0, G_OPTION_ARG_STRING, &r.ring,
          "keep only the newest part of the trace, in files of this size "
          "together", "SIZE" },
        { "fsync", 0, 0, G_OPTION_ARG_STRING, &r.fsync,
          "when to flush the trace to the disk: end, none, or an interval such "
          "as 5s (default: end)", "WHEN" },
        { "names", 0, 0, G_OPTION_ARG_STRING, &r.names,
          "names of symbols and processes, read from the guest's memory: auto "
          "(default), all (the guest waits until each process is known) or "
          "off", "WHEN" },
        { "attach", 0, 0, G_OPTION_ARG_NONE, &r.attach,
          "take over the session that is active", NULL },
        { "quiet", 'q', 0, G_OPTION_ARG_NONE, &r.quiet,
          "print errors only", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    r.arguments = json_object_new();
    r.metadata = json_object_new();
    if (cli_parse(&argc, &argv, entries, CLI_OPTIONAL, "[DOMAIN]",
                  "Trace a guest under QEMU into a file.")) {
        r.domain = argv[1];
        if (!r.output && !r.domain) {
            r.output = g_strdup("trace.btrail");
        }
        code = run_record(&r);
    }

    if (r.signal_fd >= 0) {
        close(r.signal_fd);
    }
    json_object_unref(r.arguments);
    json_object_unref(r.metadata);
    g_free(r.connect);
    g_strfreev(r.processes);
    g_free(r.qmp);
    g_free(r.output);
    g_free(r.session);
    g_free(r.vcpus);
    g_strfreev(r.cr3);
    g_free(r.overflow);
    g_free(r.buffer_size);
    g_free(r.agent_timeout);
    g_free(r.duration);
    g_free(r.split);
    g_free(r.ring);
    g_free(r.fsync);
    g_free(r.names);
    return code;
}
