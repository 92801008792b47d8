/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trace files, as the subcommands see them
 */

#include <errno.h>
#include <string.h>

#include "cli.h"
#include "json.h"

static void merge_meta(struct cli_trace *t)
{
    const char *text;
    unsigned i;

    for (i = 0; !btrail_trace_meta(t->trace, i, &text, NULL); i++) {
        g_autoptr(JsonNode) node = btrail_json_parse_object(text);
        g_autoptr(GList) names = NULL;
        JsonObject *object;
        GList *l;

        if (!node) {
            cli_error("%s: piece %u of the description is not a JSON object "
                      "that makes sense; going on without it", t->path, i);
            continue;
        }
        object = json_node_get_object(node);
        names = json_object_get_members(object);
        for (l = names; l; l = l->next) {
            json_object_set_member(t->meta, l->data,
                                   json_object_dup_member(object, l->data));
        }
    }
}

bool cli_trace_open(struct cli_trace *t, const char *path)
{
    JsonObject *start;
    int ret;

    memset(t, 0, sizeof(*t));
    t->path = path;
    ret = btrail_trace_open(&t->trace, path);
    if (ret) {
        cli_error("%s: %s", path, ret == -BTRAIL_ERR_IO ? g_strerror(errno) :
                  btrail_strerror(ret));
        return false;
    }
    btrail_trace_status(t->trace, &t->status);
    t->meta = json_object_new();
    merge_meta(t);
    start = btrail_json_object(t->meta, "start");
    if (start) {
        t->start = btrail_json_int(start, "monotonic", 0);
    }
    return true;
}

void cli_trace_close(struct cli_trace *t)
{
    btrail_trace_close(t->trace);
    json_object_unref(t->meta);
}

int cli_trace_verdict(const struct cli_trace *t, uint64_t damage)
{
    const struct btrail_trace_status *s = &t->status;
    int verdict = CLI_OK;

    if (!s->complete) {
        cli_error("%s: the file was cut off or is still being written; "
                  "%" G_GUINT64_FORMAT " bytes at its end are of no use",
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
                  " bytes passed over", t->path, s->bad_chunks,
                  s->missing_chunks, s->skipped_bytes);
        verdict = CLI_DAMAGED;
    }
    if (damage) {
        cli_error("%s: damaged: %" G_GUINT64_FORMAT
                  " times something is missing or cannot be decoded",
                  t->path, damage);
        verdict = CLI_DAMAGED;
    }
    return verdict;
}

const char *cli_format_time(const struct cli_trace *t, uint64_t host,
                            char buf[CLI_TIME_SIZE])
{
    uint64_t ns = host >= t->start ? host - t->start : t->start - host;

    if (!host) {
        return "-";
    }
    g_snprintf(buf, CLI_TIME_SIZE, "%s%" G_GUINT64_FORMAT ".%09u",
               host < t->start ? "-" : "", ns / 1000000000,
               (unsigned)(ns % 1000000000));
    return buf;
}

static const char *word(const char *const *words, size_t n, uint16_t i)
{
    return i < n && words[i] ? words[i] : "unknown";
}

const char *cli_event_name(uint16_t type)
{
    static const char *const names[] = {
        [BTRAIL_EVENT_CR3] = "cr3",
        [BTRAIL_EVENT_TIME] = "time",
        [BTRAIL_EVENT_GAP] = "gap",
        [BTRAIL_EVENT_PAUSE] = "pause",
        [BTRAIL_EVENT_RESUME] = "resume",
        [BTRAIL_EVENT_END] = "end",
    };

    return word(names, G_N_ELEMENTS(names), type);
}

const char *cli_event_reason(uint16_t type, uint16_t reason)
{
    static const char *const gaps[] = {
        [BTRAIL_GAP_OVERFLOW] = "overflow",
        [BTRAIL_GAP_OVERWRITTEN] = "overwritten",
        [BTRAIL_GAP_AGENT_LOST] = "agent-lost",
        [BTRAIL_GAP_RESET] = "reset",
        [BTRAIL_GAP_RESTORED] = "restored",
        [BTRAIL_GAP_DEBUGGER] = "debugger",
        [BTRAIL_GAP_CORRUPT] = "corrupt",
        [BTRAIL_GAP_PRODUCER_LOST] = "producer-lost",
    };
    static const char *const pauses[] = {
        [BTRAIL_PAUSE_OVERFLOW] = "overflow",
        [BTRAIL_PAUSE_VM_STOP] = "vm-stop",
    };
    static const char *const ends[] = {
        [BTRAIL_END_STOPPED] = "stopped",
        [BTRAIL_END_SHUTDOWN] = "shutdown",
        [BTRAIL_END_MIGRATED] = "migrated",
        [BTRAIL_END_UNPLUGGED] = "unplugged",
        [BTRAIL_END_PRODUCER_LOST] = "producer-lost",
    };

    switch (type) {
    case BTRAIL_EVENT_GAP:
        return word(gaps, G_N_ELEMENTS(gaps), reason);
    case BTRAIL_EVENT_PAUSE:
    case BTRAIL_EVENT_RESUME:
        return word(pauses, G_N_ELEMENTS(pauses), reason);
    case BTRAIL_EVENT_END:
        return word(ends, G_N_ELEMENTS(ends), reason);
    default:
        return "unknown";
    }
}
