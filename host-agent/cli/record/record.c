/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record: trace a guest into a file
 */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/record/record.h"
#include "cli/sessions.h"
#include "pt/pt-ring.h"
#include "util/json.h"

/* As QEMU has it */
#define MIN_BUFFER_SIZE (128 << 10)
/* Of rings of Intel PT: as usual, and at least */
#define PT_SIZE         (64u << 20)
#define MIN_PT_SIZE     (64u << 10)

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
    g_autoptr(GError) error = NULL;

    s->path = r->output;
    s->replace = r->force;
    if (r->session.split && r->ring) {
        cli_error("--split and --ring exclude each other: a ring is split, "
                  "too");
        return false;
    }
    s->part_size = r->session.part_size;
    if (!session_options_file_size("--ring", r->ring, &s->ring_size, &error)) {
        cli_error("%s", error->message);
        return false;
    }
    if (!parse_sync(r->fsync, s)) {
        return false;
    }
    if (r->session.split) {
        json_object_set_int_member(r->metadata, "split", s->part_size);
    }
    if (r->ring) {
        json_object_set_int_member(r->metadata, "ring", s->ring_size);
    }
    return true;
}

/* Does the service write the trace? */
static bool uses_service(const struct record_request *o)
{
    return (o->domain && !o->pt && !o->pt_rings) || o->guest.agent ||
           session_options_need_service(&o->session);
}

/* Checks that the options suit the way to the guest. */
static bool check_way(const struct record_request *o)
{
    bool own = o->force || o->attach || o->ring || o->fsync ||
               o->buffer_size || o->agent_timeout || o->guest_names ||
               o->from_start;

    if (!cli_guest_check(&o->guest, o->domain)) {
        return false;
    }
    if (uses_service(o) && own) {
        cli_error("--force, --from-start, --attach, --ring, --fsync, "
                  "--guest-names, --buffer-size and --agent-timeout need "
                  "--qmp, and no --agent, --process, --trigger, --mode or "
                  "--size: with these the service writes the trace");
        return false;
    }
    return true;
}

/* TSC,NS,HZ[,HOST] */
static bool parse_clock(const char *text, struct vcpu_trace_clock *c,
                        struct kvm_tsc *host)
{
    g_auto(GStrv) part = g_strsplit(text, ",", 0);
    uint64_t at_host;
    uint64_t *const numbers[] = { &c->tsc, &c->ns, &c->hz, &at_host };
    unsigned n = g_strv_length(part);

    if (n != 3 && n != 4) {
        cli_error("--pt-clock: '%s' is not TSC,NS,HZ or TSC,NS,HZ,HOST", text);
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        if (!cli_parse_u64("--pt-clock", part[i], numbers[i])) {
            return false;
        }
    }
    if (!c->ns || !c->hz) {
        cli_error("--pt-clock: neither the host's clock nor the frequency can "
                  "be 0");
        return false;
    }
    if (n == 4) {
        *host = (struct kvm_tsc){ .offset = c->tsc - at_host, .ratio = 1 };
    }
    return true;
}

/* The next power of 2 */
bool record_parse_pt_size(const char *option, const char *text,
                          uint64_t *size)
{
    uint64_t wanted = PT_SIZE;

    if (text && !cli_parse_size(option, text, &wanted)) {
        return false;
    }
    if (!wanted || wanted > PT_RING_MAX) {
        cli_error("%s: '%s' is not from 1 to 2G bytes", option, text);
        return false;
    }
    for (*size = MIN_PT_SIZE; *size < wanted; *size *= 2) {
        continue;
    }
    return true;
}

/* Of rings of Intel PT all is decoded, by this command. */
static bool check_pt(struct record_request *o)
{
    const struct session_options *s = &o->session;

    if (!o->pt_rings && (o->pt_clock_text || o->pt_returns)) {
        cli_error("--pt-clock and --pt-returns need --pt-ring");
        return false;
    }
    if (!o->pt && o->last) {
        cli_error("--last needs --pt");
        return false;
    }
    if (o->pt && o->pt_rings) {
        cli_error("--pt and --pt-ring exclude each other: one makes rings, the "
                  "other reads those that were saved");
        return false;
    }
    if (o->live && !o->pt && !o->pt_rings) {
        cli_error("--live needs --pt, or --pt-ring");
        return false;
    }
    if (o->live && o->last) {
        cli_error("--live and --last exclude each other: one decodes all "
                  "while the guest runs, the other what came last");
        return false;
    }
    if (!o->pt_rings && !o->pt) {
        return true;
    }
    if ((!o->guest.qmp && !o->domain) || uses_service(o) || o->attach ||
        o->from_start || (o->buffer_size && !(o->live && o->pt)) ||
        o->agent_timeout || o->guest_names || s->vcpus || s->user ||
        s->kernel || s->cr3 || (s->overflow && !o->live) ||
        (s->duration && !o->pt && !o->live)) {
        cli_error("%s needs a DOMAIN or --qmp; it can be combined with "
                  "--connect, %s%s, --output, --session, --split, --ring, "
                  "--fsync, --names, --force and --quiet only",
                  o->pt ? "--pt" : "--pt-ring",
                  !o->pt ? "--pt-clock, --pt-returns" :
                  o->live ? "--buffer-size" : "--last, --duration",
                  o->live ? ", --live, --overflow, --duration" : "");
        return false;
    }
    if (s->overflow && strcmp(s->overflow, "pause") &&
        strcmp(s->overflow, "drop")) {
        cli_error("--overflow: with --live it is pause or drop; --pt without "
                  "--live has the rings overwritten");
        return false;
    }
    if (!record_parse_pt_size(o->live ? "--buffer-size" : "--last",
                              o->live ? o->buffer_size : o->last,
                              &o->pt_size)) {
        return false;
    }
    return !o->pt_clock_text || parse_clock(o->pt_clock_text, &o->pt_clock,
                                            &o->pt_host_tsc);
}

/* The selection as it was given */
static void describe_filter(const struct record_request *o)
{
    JsonArray *cr3s;

    btrail_json_add(o->metadata, "S:vcpu_filter", o->session.vcpus, NULL);
    if (o->session.cr3) {
        cr3s = json_array_new();
        for (char **text = o->session.cr3; *text; text++) {
            json_array_add_string_element(cr3s, *text);
        }
        json_object_set_array_member(o->metadata, "cr3_filter", cr3s);
    }
}

/* Turns options into arguments of branch-trace-start. */
static bool check_options(struct record_request *o)
{
    const struct session_options *s = &o->session;
    g_autoptr(GError) error = NULL;
    uint64_t number;

    if (!check_pt(o) || !check_way(o)) {
        return false;
    }
    if (o->attach && (s->session || s->vcpus || s->user || s->kernel ||
                      s->cr3 || s->overflow || o->buffer_size ||
                      o->agent_timeout || o->from_start)) {
        cli_error("--attach takes over a capture as it is; it can be combined "
                  "with --output, --split, --ring, --fsync, --names, "
                  "--guest-names, --duration, --force and --quiet only");
        return false;
    }
    if (!s->session) {
        o->session.session = g_strdup_printf("record-%d", (int)getpid());
    }
    if (!cli_session_check(&o->session)) {
        return false;
    }
    if (!session_options_add_filter(s, o->arguments, &error)) {
        cli_error("%s", error->message);
        return false;
    }
    describe_filter(o);
    if (o->buffer_size) {
        if (!cli_parse_size("--buffer-size", o->buffer_size, &number)) {
            return false;
        }
        if (number < MIN_BUFFER_SIZE) {
            cli_error("--buffer-size: '%s' is below 128K", o->buffer_size);
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
    return check_store_options(o);
}

static int run_record(struct record_request *r)
{
    if (!check_options(r)) {
        return CLI_USAGE;
    }
    if (uses_service(r)) {
        json_object_unref(r->arguments);
        r->arguments = cli_session_start(&r->session, r->output);
        if (!r->arguments) {
            return CLI_USAGE;
        }
    }
    /* A file that is too large is an error like a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    cli_set_records(uses_service(r) ?
        "backtrail: ending before the service has written the trace; the "
        "service continues to write it\n" :
        "backtrail: ending before all was written; backtrail repair completes "
        "the trace, which has what was written\n");
    r->signal_fd = cli_open_signals();
    if (r->signal_fd < 0) {
        return CLI_FAILED;
    }
    if (uses_service(r)) {
        return record_by_service(r);
    }
    if (!r->output) {
        r->output = g_strdup("trace.btrail");
        r->store.path = r->output;
    }
    if (r->pt_rings || r->pt) {
        return r->live ? record_live(r) : record_pt(r);
    }
    json_object_set_string_member(r->arguments, "capture",
                                  r->session.session);
    return record_qmp(r);
}

int cmd_record(int argc, char **argv)
{
    struct record_request r = { .signal_fd = -1 };
    const GOptionEntry entries[] = {
        CLI_GUEST_ENTRIES(&r.guest),
        CLI_SESSION_ENTRIES(&r.session)
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &r.output,
          "output file (default: trace.btrail); if the service writes it: its "
          "name in the guest's folder (default: session and time)", "FILE" },
        { "force", 'f', 0, G_OPTION_ARG_NONE, &r.force,
          "replace the file if it exists", NULL },
        { "buffer-size", 0, 0, G_OPTION_ARG_STRING, &r.buffer_size,
          "buffer per vCPU (default: 2M)", "SIZE" },
        { "agent-timeout", 0, 0, G_OPTION_ARG_STRING, &r.agent_timeout,
          "milliseconds that a paused guest waits if this command hangs or "
          "dies (default: 5000; 0: for ever)", "MS" },
        { "ring", 0, 0, G_OPTION_ARG_STRING, &r.ring,
          "keep only the newest part of the trace, in files of this size "
          "together", "SIZE" },
        { "fsync", 0, 0, G_OPTION_ARG_STRING, &r.fsync,
          "when to flush the trace to the disk: end, none, or an interval such "
          "as 5s (default: end)", "WHEN" },
        { "guest-names", 0, 0, G_OPTION_ARG_FILENAME, &r.guest_names,
          "also ask backtrail-guest-names in the guest for names, through the "
          "unix socket of its port", "SOCKET" },
        { "from-start", 0, 0, G_OPTION_ARG_NONE, &r.from_start,
          "wait for a QEMU that is started with -S, and let its guest run once "
          "it is traced", NULL },
        { "attach", 0, 0, G_OPTION_ARG_NONE, &r.attach,
          "take over the session that is active", NULL },
        { "pt", 0, 0, G_OPTION_ARG_NONE, &r.pt,
          "trace by Intel PT, under any QEMU with KVM: at Ctrl-C, after "
          "--duration, or when the guest panics, it is stopped, and what it "
          "did last is decoded", NULL },
        { "live", 0, 0, G_OPTION_ARG_NONE, &r.live,
          "with --pt or --pt-ring: decode what comes while the guest runs",
          NULL },
        { "last", 0, 0, G_OPTION_ARG_STRING, &r.last,
          "with --pt: how much each vCPU's ring has (default: 64M)", "SIZE" },
        { "pt-ring", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &r.pt_rings,
          "decode this ring of Intel PT with the memory of a guest that stands "
          "still; once for each vCPU, from 0 on", "FILE" },
        { "pt-clock", 0, 0, G_OPTION_ARG_STRING, &r.pt_clock_text,
          "with --pt-ring: the guest's TSC, the host's monotonic clock in "
          "nanoseconds then, the guest's TSC's frequency and, if known, the "
          "host's TSC then", "TSC,NS,HZ[,HOST]" },
        { "pt-returns", 0, 0, G_OPTION_ARG_NONE, &r.pt_returns,
          "with --pt-ring: returns are compressed", NULL },
        { "quiet", 'q', 0, G_OPTION_ARG_NONE, &r.quiet,
          "print errors only", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    cli_session_complete();
    r.arguments = json_object_new();
    r.metadata = json_object_new();
    if (cli_parse(&argc, &argv, entries, CLI_OPTIONAL, "[DOMAIN]",
                  "Trace a guest under QEMU into a file.")) {
        r.domain = argv[1];
        code = run_record(&r);
    }

    if (r.signal_fd >= 0) {
        close(r.signal_fd);
    }
    g_clear_pointer(&r.arguments, json_object_unref);
    json_object_unref(r.metadata);
    cli_guest_clear(&r.guest);
    session_options_clear(&r.session);
    g_free(r.output);
    g_free(r.buffer_size);
    g_free(r.agent_timeout);
    g_free(r.ring);
    g_free(r.fsync);
    g_free(r.guest_names);
    g_strfreev(r.pt_rings);
    g_free(r.last);
    g_free(r.pt_clock_text);
    return code;
}
