/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The file that is recorded into: see record.h */

#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/record/record.h"
#include "util/json.h"

struct btrail_store *record_open_store(const struct record_request *r)
{
    const struct btrail_store_options *o = &r->store;
    struct btrail_store *store;

    if (btrail_store_open(&store, o)) {
        cli_error("%s%s: %s%s", o->path, o->part_size || o->ring_size ?
                  " or a part of it" : "", g_strerror(errno),
                  errno == EEXIST ? "; --force replaces it" : errno == EBUSY ?
                  ": another process writes it" : "");
        return NULL;
    }
    return store;
}

bool record_describe_pt(const struct record_request *r,
                        struct btrail_store *store, const struct qmp *qmp,
                        uint64_t began)
{
    g_autofree char *text = NULL;

    btrail_json_add(r->metadata, "S:qemu", qmp_version(qmp),
                    "s:session", r->session.session,
                    "o:start", btrail_json_new(
                        "U:monotonic", began,
                        "U:realtime", g_get_real_time() * 1000, NULL), NULL);
    text = btrail_json_text(r->metadata, FALSE);
    if (btrail_store_meta(store, text, strlen(text))) {
        cli_error("%s: %s", r->store.path, g_strerror(errno));
        btrail_store_close(store, NULL);
        return false;
    }
    return true;
}
