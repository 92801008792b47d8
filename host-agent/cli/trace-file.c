/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trace files: opens them for the subcommands, with their description
 */

#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "lib/agent/meta.h"
#include "lib/agent/sideband.h"

const char *cli_strerror(int ret)
{
    return ret == -BTRAIL_ERR_IO ? g_strerror(errno) : btrail_strerror(ret);
}

/* Reports which of several files cannot be opened, if it is a single one. */
static void explain(char *const *paths, int ret)
{
    const char *words = cli_strerror(ret);

    for (unsigned i = 0; paths[1] && paths[i]; i++) {
        struct btrail_trace *trace = NULL;

        if (btrail_trace_open(&trace, paths[i]) == ret) {
            cli_error("%s: %s", paths[i], words);
            return;
        }
        btrail_trace_close(trace);
    }
    cli_error("%s: %s", paths[0], words);
}

bool cli_trace_open(struct cli_trace *t, char *const *paths)
{
    JsonObject *start;
    int ret;

    memset(t, 0, sizeof(*t));
    t->path = paths[0];
    ret = paths[1] ?
          btrail_trace_open_files(&t->trace, (const char *const *)paths,
                                  g_strv_length((char **)paths)) :
          btrail_trace_open_parts(&t->trace, paths[0]);
    if (ret) {
        explain(paths, ret);
        return false;
    }
    btrail_trace_status(t->trace, &t->status);
    t->meta = btrail_meta_read(t->trace, &t->bad_metas);
    if (t->bad_metas) {
        cli_error("%s: %u pieces of the description are not JSON objects and "
                  "were left out", t->path, t->bad_metas);
    }
    start = btrail_json_object(t->meta, "start");
    if (start) {
        t->start = btrail_json_int(start, "monotonic", 0);
    }
    t->tick = btrail_meta_tick(t->meta);
    return true;
}

void cli_trace_close(struct cli_trace *t)
{
    btrail_trace_close(t->trace);
    json_object_unref(t->meta);
}

struct pauses *cli_trace_pauses(const struct cli_trace *t, bool *known)
{
    const char *privilege = btrail_json_string(t->meta, "privilege");
    gint64 vcpus = btrail_json_int(t->meta, "vcpus", 0);
    const struct pauses_guest guest = {
        .vcpus = CLAMP(vcpus, 0, BTRAIL_MAX_VCPUS),
        .tick = t->tick,
        .whole = privilege && !strcmp(privilege, "all") &&
                 !json_object_has_member(t->meta, "cr3_filter") &&
                 !json_object_has_member(t->meta, "processes"),
    };
    struct pauses *p;
    int ret = pauses_read(&p, t->trace, &guest);

    if (ret) {
        cli_error("%s: %s", t->path, cli_strerror(ret));
        return NULL;
    }
    /* Only what a device has made, which has a policy, is said to be whole. */
    *known = btrail_json_string(t->meta, "overflow") || pauses_of_all(p).n;
    return p;
}

char *cli_unknown_pauses(const struct pauses *p, bool known)
{
    uint64_t unknown = pauses_unknown(p);

    if (!known) {
        return g_strdup("whether calls were paused is not known");
    }
    return !unknown ? NULL :
           g_strdup_printf("pauses are not known at %" G_GUINT64_FORMAT
                           " places where records are missing, or the trace "
                           "ends", unknown);
}

int cli_trace_verdict(const struct cli_trace *t, uint64_t damage)
{
    const struct btrail_trace_status *s = &t->status;
    uint64_t sideband = btrail_trace_sidebands_damaged(t->trace);
    int verdict = t->left_out ? CLI_DAMAGED : CLI_OK;

    if (!s->complete) {
        cli_error("%s: the file was cut off or is still being written; "
                  "%" G_GUINT64_FORMAT " bytes at its end are unusable",
                  t->path, s->cut_bytes);
        verdict = CLI_DAMAGED;
    } else if (!s->indexed) {
        cli_error("%s: the index is damaged; used the chunks themselves",
                  t->path);
        verdict = CLI_DAMAGED;
    }
    if (s->bad_chunks || s->missing_chunks || s->skipped_bytes) {
        cli_error("%s: damaged: %" G_GUINT64_FORMAT " bad chunks, %"
                  G_GUINT64_FORMAT " missing ones, %" G_GUINT64_FORMAT
                  " bytes skipped", t->path, s->bad_chunks,
                  s->missing_chunks, s->skipped_bytes);
        verdict = CLI_DAMAGED;
    }
    if (s->missing_parts) {
        cli_error("%s: %" G_GUINT64_FORMAT " files of the trace are missing "
                  "between the others", t->path, s->missing_parts);
        verdict = CLI_DAMAGED;
    }
    if (s->continued && !s->first_part) {
        /* A user who names only a later part wants only that. */
        cli_error("%s: the trace continues in a file that was not given",
                  t->path);
        verdict = CLI_DAMAGED;
    }
    if (sideband && !t->sideband_said) {
        cli_error("%s: damaged: %" G_GUINT64_FORMAT " pieces of what is known "
                  "of the guest: names, or code, can be missing", t->path,
                  sideband);
        verdict = CLI_DAMAGED;
    }
    if (damage) {
        cli_error("%s: damaged: %" G_GUINT64_FORMAT
                  " places are missing or cannot be decoded",
                  t->path, damage);
        verdict = CLI_DAMAGED;
    }
    return verdict;
}

const char *cli_format_icount(const struct btrail_record *record,
                              const struct btrail_time *time,
                              const char *unknown, char buf[CLI_TIME_SIZE])
{
    uint64_t icount = btrail_record_icount(record, time);

    if (icount == BTRAIL_NO_ICOUNT) {
        return unknown;
    }
    g_snprintf(buf, CLI_TIME_SIZE, "%" G_GUINT64_FORMAT, icount);
    return buf;
}

const char *cli_format_ns(uint64_t ns, char buf[CLI_TIME_SIZE])
{
    g_snprintf(buf, CLI_TIME_SIZE, "%" G_GUINT64_FORMAT ".%09u",
               ns / 1000000000, (unsigned)(ns % 1000000000));
    return buf;
}

const char *cli_format_time(const struct cli_trace *t, uint64_t host,
                            char buf[CLI_TIME_SIZE])
{
    uint64_t ns = host >= t->start ? host - t->start : t->start - host;
    char text[CLI_TIME_SIZE];

    if (!host) {
        return "-";
    }
    g_snprintf(buf, CLI_TIME_SIZE, "%s%s", host < t->start ? "-" : "",
               cli_format_ns(ns, text));
    return buf;
}
