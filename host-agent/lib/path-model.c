/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The model of codec "path": its memory
 */

#include "lib/internal/path-model.h"

void btrail_path_model_free(struct path_model *m)
{
    g_free(m->path ? m->path - PATH_PAD : NULL);
    g_free(m->edges);
    g_free(m->last);
    m->path = NULL;
    m->edges = NULL;
    m->last = NULL;
    m->max_steps = 0;
}

bool btrail_path_model_reserve(struct path_model *m, uint32_t steps)
{
    if (m->path && steps <= m->max_steps) {
        return true;
    }
    btrail_path_model_free(m);
    /* Not for each chunk that is a little longer: new memory costs most. */
    steps = 1u << g_bit_storage(MAX(steps, 1) - 1);
    m->max_edges = MIN(steps, BTRAIL_CODEC_MAX_EDGES);
    m->path = g_try_new(uint32_t, (size_t)steps + 1 + PATH_PAD);
    m->edges = g_try_new(struct path_edge, (size_t)m->max_edges + 1);
    m->last = g_try_new(uint32_t, (size_t)m->max_edges + 1);
    if (!m->path || !m->edges || !m->last) {
        g_free(m->path);
        m->path = NULL;
        btrail_path_model_free(m);
        return false;
    }
    m->path += PATH_PAD;
    m->max_steps = steps;
    return true;
}

void btrail_path_model_begin(struct path_model *m)
{
    /* The tables of a new model are clear; most of their pages stay unused. */
    if (m->used) {
        memset(m, 0, offsetof(struct path_model, used));
    }
    m->used = true;
    memset(m->path - PATH_PAD, 0, PATH_PAD * sizeof(*m->path));
    m->edges[0] = (struct path_edge) { 0, 0 };
    m->last[0] = 0;
    /* Where nothing is predicted, nothing is passed. */
    m->path[0] = STEP_FORK;
}

const uint8_t btrail_codec_record_bytes[BTRAIL_CODEC_STREAMS] = {
    [BTRAIL_CODEC_MISSES_NONE] = BTRAIL_CODEC_MAX_MISS_BYTES,
    [BTRAIL_CODEC_MISSES_EDGE] = BTRAIL_CODEC_MAX_MISS_BYTES,
    [BTRAIL_CODEC_MISSES_EDGES] = BTRAIL_CODEC_MAX_MISS_BYTES,
    [BTRAIL_CODEC_STRAIGHTS] = BTRAIL_CODEC_MAX_STRAIGHT_BYTES,
    [BTRAIL_CODEC_LENGTHS] = BTRAIL_CODEC_MAX_LENGTH_BYTES,
    [BTRAIL_CODEC_OTHER_LENGTHS] = BTRAIL_CODEC_MAX_LENGTH_BYTES,
    [BTRAIL_CODEC_TARGETS] = BTRAIL_CODEC_MAX_TARGET_BYTES,
    [BTRAIL_CODEC_PLACES] = BTRAIL_CODEC_MAX_PLACE_BYTES,
    [BTRAIL_CODEC_DISTANCES] = BTRAIL_CODEC_MAX_DISTANCE_BYTES,
    [BTRAIL_CODEC_RETURNS] = BTRAIL_CODEC_MAX_RETURN_BYTES,
    [BTRAIL_CODEC_FLAGS] = BTRAIL_CODEC_MAX_FLAG_BYTES,
    [BTRAIL_CODEC_COUNTS] = BTRAIL_CODEC_MAX_COUNT_BYTES,
};
