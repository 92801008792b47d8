/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The description of a session: see session-description.h
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "backtrail/words.h"
#include "drain/session-description.h"
#include "util/clock.h"

static int write_meta(struct btrail_store *store, JsonObject *object)
{
    g_autofree char *text = btrail_json_text(object, FALSE);

    return btrail_store_meta(store, text, strlen(text));
}

int session_identify(struct btrail_store *store, JsonObject *meta,
                     const struct session_facts *facts,
                     bool *anywhere)
{
    const struct btrail_shm_header *h = facts->header;
    const char *name = btrail_json_string(meta, "session");
    uint64_t clocks[2] = { h->start_monotonic, h->start_realtime };
    uint16_t begin = !facts->attached ? 0 :
                     h->policy == BTRAIL_OVERFLOW_OVERWRITE ?
                     BTRAIL_GAP_OVERWRITTEN : BTRAIL_GAP_AGENT_LOST;
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    uint8_t id[32];
    gsize len = sizeof(id);

    g_checksum_update(sum, (const guchar *)clocks, sizeof(clocks));
    g_checksum_update(sum, (const guchar *)h->capture, -1);
    if (name && strcmp(name, h->capture)) {
        g_checksum_update(sum, (const guchar *)name, -1);
    }
    g_checksum_get_digest(sum, id, &len);
    if (btrail_store_identify(store, id, begin)) {
        return errno == ESPIPE ? 0 : -BTRAIL_ERR_IO;
    }
    *anywhere = begin;
    return 0;
}

/* The owner may have added the filter as the user wrote it. */
static void describe_filter(const struct session_filter *f,
                            JsonObject *meta)
{
    JsonArray *array;

    if (f->n_vcpus && !json_object_has_member(meta, "vcpu_filter")) {
        g_autoptr(GString) list = g_string_new(NULL);

        for (unsigned i = 0; i < f->n_vcpus; i++) {
            g_string_append_printf(list, "%s%u", i ? "," : "", f->vcpus[i]);
        }
        json_object_set_string_member(meta, "vcpu_filter", list->str);
    }
    if (f->n_cr3s && !json_object_has_member(meta, "cr3_filter")) {
        array = json_array_new();
        for (unsigned i = 0; i < f->n_cr3s; i++) {
            g_autofree char *cr3 = g_strdup_printf("0x%" PRIx64, f->cr3s[i]);

            json_array_add_string_element(array, cr3);
        }
        json_object_set_array_member(meta, "cr3_filter", array);
    }
    if (f->processes) {
        array = json_array_new();
        for (unsigned i = 0; f->processes[i]; i++) {
            json_array_add_string_element(array, f->processes[i]);
        }
        json_object_set_array_member(meta, "processes", array);
    }
}

int session_describe(struct btrail_store *store, JsonObject *meta,
                     const struct session_facts *facts)
{
    const struct btrail_shm_header *h = facts->header;
    uint32_t privilege = facts->filter->privilege ?: h->privilege;

    btrail_json_add(meta, "s:writer", "backtrail " BACKTRAIL_VERSION,
                    "S:session", json_object_has_member(meta, "session") ?
                    NULL : h->capture,
                    "s:producer", btrail_producer_name(h->producer),
                    "s:overflow", facts->drop ? "drop" :
                    btrail_overflow_name(h->policy),
                    "s:privilege", btrail_privilege_name(privilege),
                    "s:mode", facts->mode, NULL);
    describe_filter(facts->filter, meta);
    btrail_json_add(meta, "U:tick_ns", h->tick_ns,
                    "U:tsc_hz", h->tsc_hz,
                    "U:buffer_size", (uint64_t)h->slabs * h->slab_size,
                    "U:vcpus", (uint64_t)h->vcpus,
                    "b:attached", facts->attached,
                    "o:start", btrail_json_new(
                        "U:monotonic", h->start_monotonic,
                        "U:realtime", h->start_realtime, NULL), NULL);
    if (h->record_has & BTRAIL_RECORD_HAS_ICOUNT) {
        json_object_set_boolean_member(meta, "icount", TRUE);
    }
    return write_meta(store, meta);
}

JsonObject *session_describe_names(const char *release,
                                   char **missing)
{
    JsonObject *names = btrail_json_new("S:kernel", release, NULL);
    JsonArray *texts = json_array_new();

    for (unsigned i = 0; missing && missing[i]; i++) {
        json_array_add_string_element(texts, missing[i]);
    }
    btrail_json_add(names, "a:missing", texts, NULL);
    return names;
}

static JsonArray *describe_kernels(char **releases)
{
    JsonArray *array = json_array_new();

    for (unsigned i = 0; releases && releases[i]; i++) {
        /*
         * No release has a colon, and META may have only a limited number of
         * them.
         */
        if (!strchr(releases[i], ':')) {
            json_array_add_object_element(
                array, btrail_json_new("u:number", i + 1,
                                       "s:release", releases[i], NULL));
        }
    }
    return array;
}

int session_describe_end(struct btrail_store *store, uint16_t reason,
                         const GError *error, uint64_t snapshots,
                         const char *release, char **missing,
                         char **kernels)
{
    const char *word = btrail_reason_name(BTRAIL_EVENT_END, reason);
    g_autoptr(JsonObject) meta = btrail_json_new(
        "o:end", btrail_json_new(
            "s:reason", word, "U:monotonic", clock_ns(),
            "U:realtime", g_get_real_time() * 1000,
            "S:error", error ? error->message : NULL, NULL), NULL);

    if (snapshots || release || missing) {
        JsonObject *names = session_describe_names(release, missing);

        btrail_json_add(names, "a:kernels", describe_kernels(kernels),
                        "U:snapshots", snapshots, NULL);
        btrail_json_add(meta, "o:names", names, NULL);
    }
    return write_meta(store, meta);
}
