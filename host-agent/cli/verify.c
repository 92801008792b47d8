/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail verify: checks that a trace is complete and accounts for every
 * record
 */

#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/pt-share.h"
#include "cli/verify.h"
#include "util/json.h"

struct verify_command {
    struct cli_trace trace;
    unsigned threads;
    struct btrail_verify_result result;
    JsonArray *list;            /* of faults; NULL to print them */
};

static void on_fault(void *opaque, const struct btrail_fault *fault)
{
    struct verify_command *v = opaque;

    if (v->list) {
        JsonObject *o = json_object_new();

        if (fault->in_stream) {
            btrail_json_add(o, "u:vcpu", fault->vcpu, "U:index", fault->index,
                            NULL);
        }
        btrail_json_add(o, "s:what", fault->text, NULL);
        json_array_add_object_element(v->list, o);
    } else if (fault->in_stream) {
        cli_error("%s: vCPU %u, index %" PRIu64 ": %s", v->trace.path,
                  fault->vcpu, fault->index, fault->text);
    } else {
        cli_error("%s: %s", v->trace.path, fault->text);
    }
}

static void print_json(const struct verify_command *v, unsigned vcpus)
{
    const struct btrail_verify_result *r = &v->result;
    JsonObject *pt = btrail_json_object(v->trace.meta, "pt"), *o;

    o = btrail_json_new(
        "s:path", v->trace.path, "u:files", v->trace.status.files,
        "b:complete", r->complete, "U:records", r->records, "u:vcpus", vcpus,
        "U:gaps", r->gaps, "U:lost", r->lost,
        "b:lost_unknown", r->lost_unknown, "U:damage", r->damage,
        "U:fault_count", r->faults, "a:faults", json_array_ref(v->list),
        NULL);
    if (pt) {
        json_object_set_object_member(o, "pt", json_object_ref(pt));
    }
    cli_print_json(o);
}

/* Returns an exit code; if it is not CLI_FAILED, the trace is open. */
static int check(struct verify_command *v, char *const *paths)
{
    int ret;

    if (!cli_trace_open(&v->trace, paths)) {
        return CLI_FAILED;
    }
    ret = btrail_verify(v->trace.trace, v->threads, on_fault, v, &v->result);
    if (ret) {
        cli_error("%s: %s", paths[0], cli_strerror(ret));
        cli_trace_close(&v->trace);
        return CLI_FAILED;
    }
    if (!pt_share_adds_up(v->trace.meta)) {
        const struct btrail_fault fault = {
            .text = "the bytes of Intel PT do not add up in META",
        };

        on_fault(v, &fault);
        v->result.faults++;
        v->result.complete = false;
    }
    /* It says what the library only counts. */
    v->trace.sideband_said = true;
    cli_trace_verdict(&v->trace, v->result.damage);
    return v->result.complete ? CLI_OK : CLI_DAMAGED;
}

int cli_verify_file(const char *path, uint64_t *records)
{
    struct verify_command v = { .threads = btrail_parallel_threads() };
    char *const paths[] = { (char *)path, NULL };
    int code = check(&v, paths);

    *records = v.result.records;
    if (code != CLI_FAILED) {
        cli_trace_close(&v.trace);
    }
    return code;
}

static int run(struct verify_command *v, char *const *paths)
{
    const struct btrail_verify_result *r = &v->result;
    int code = check(v, paths);
    g_autofree char *share = NULL;
    unsigned n;

    if (code == CLI_FAILED) {
        return code;
    }
    n = btrail_trace_streams(v->trace.trace);
    share = pt_share_text(v->trace.meta);
    if (v->list) {
        print_json(v, n);
    } else {
        cli_printf("%s: %s, %" PRIu64 " records of %u vCPUs, %" PRIu64
                   "%s lost in %" PRIu64 " gaps\n", v->trace.path,
                   code ? "damaged or incomplete" : "complete", r->records, n,
                   r->lost, r->lost_unknown ? " or more" : "", r->gaps);
        if (share) {
            cli_printf("Intel PT: %s\n", share);
        }
    }
    cli_trace_close(&v->trace);
    return fflush(stdout) ? CLI_FAILED : code;
}

int cmd_verify(int argc, char **argv)
{
    struct verify_command v = { 0 };
    gboolean json = FALSE;
    g_autofree char *threads = NULL;
    const GOptionEntry entries[] = {
        { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL },
        { "threads", 0, 0, G_OPTION_ARG_STRING, &threads,
          "decode with N threads (default: one per CPU)", "N" },
        { NULL }
    };
    int code;

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Decode a trace and check that it is complete and accounts "
                   "for every record.") ||
        !cli_parse_threads(threads, &v.threads)) {
        return CLI_USAGE;
    }
    v.list = json ? json_array_new() : NULL;
    code = run(&v, argv + 1);
    g_clear_pointer(&v.list, json_array_unref);
    return code;
}
