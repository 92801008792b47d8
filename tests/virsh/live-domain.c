/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: live-domain URI DOMAIN OUTPUT SECONDS RING...
 *        live-domain - SOCKET OUTPUT SECONDS RING...
 *        live-domain --start ...
 *
 * backtrail record --pt of a domain, or by a monitor, on a host without Intel
 * PT: all of it but the events.  When they are stopped it waits until the files
 * RING are there, one for each vCPU, and takes what they have for what the CPU
 * has written.
 * SECONDS is for --duration; 0: none.  With --start it is backtrail start --pt,
 * and OUTPUT the name of the last trace.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/record/pt-session.h"
#include "pt/pt-open.h"
#include "pt/pt-ring.h"
#include "util/json.h"

#define PATIENCE_S  200

static char **ring_files;
static unsigned n_rings;

/* What is the kernel's, and its program's: see there. */

struct pt_host *pt_host_read(const char *root)
{
    return g_new0(struct pt_host, 1);
}

void pt_host_free(struct pt_host *h)
{
    g_free(h);
}

bool pt_event_prepare(const struct pt_host *h,
                      const struct pt_event_options *o,
                      struct pt_event_setup *setup, GError **error)
{
    memset(setup, 0, sizeof(*setup));
    return true;
}

bool pt_open(const char *const *program, pid_t process, const pid_t *threads,
             unsigned n, const struct pt_event_setup *setup, size_t ring,
             struct pt_event *events, int *memory, GError **error)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/mem", (int)process);

    g_assert_cmpuint(n, ==, n_rings);
    for (unsigned i = 0; i < n; i++) {
        g_autofree char *task = g_strdup_printf("/proc/%d/task/%d",
                                                (int)process, (int)threads[i]);

        g_assert_true(g_file_test(task, G_FILE_TEST_IS_DIR));
        events[i] = (struct pt_event){
            .fd = (int)i,               /* whose ring; never used as one */
            .page = g_new0(struct perf_event_mmap_page, 1),
            .aux = g_malloc0(ring),
            .aux_size = ring,
        };
        events[i].page->aux_size = ring;
    }
    *memory = open(path, O_RDONLY | O_CLOEXEC);
    g_assert_cmpint(*memory, >=, 0);
    return true;
}

bool pt_event_start(struct pt_event *e, GError **error)
{
    return true;
}

bool pt_event_stop(struct pt_event *e, GError **error)
{
    const char *path = ring_files[e->fd];
    struct pt_ring_bytes bytes;

    for (unsigned i = 0; access(path, R_OK) && i < PATIENCE_S * 20; i++) {
        g_usleep(50000);
    }
    if (!pt_ring_from_file(path, &bytes, error)) {
        return false;
    }
    g_assert_cmpuint(bytes.size[0], <=, e->aux_size);
    memcpy((void *)e->aux, bytes.bytes[0], bytes.size[0]);
    e->page->aux_head = bytes.size[0];
    pt_ring_clear(&bytes);
    return true;
}

const char *pt_event_flaw(uint64_t flags)
{
    return NULL;
}

void pt_event_close(struct pt_event *e)
{
    g_free((void *)e->aux);
    g_free(e->page);
    *e = PT_EVENT_NONE;
}

static int start(struct record_request *r, const char *file)
{
    JsonObject *facts;

    g_clear_pointer(&r->session.session, g_free);
    r->store.path = NULL;
    r->store.replace = false;
    facts = pt_session_start(r, file);
    if (!facts) {
        return CLI_FAILED;
    }
    cli_print_json(facts);
    return CLI_OK;
}

int main(int argc, char **argv)
{
    bool starts = argc > 1 && !strcmp(argv[1], "--start");
    struct record_request r;
    int code;

    if (starts) {
        argc--;
        argv++;
    }
    r = (struct record_request){
        .session = {
            .session = g_strdup("live"),
            .duration_ns = argc > 5 ? strtoull(argv[4], NULL, 10) *
                           1000000000 : 0,
        },
        .pt = TRUE,
        .pt_size = 256 << 10,
        .store = { .path = argc > 5 ? argv[3] : NULL, .replace = true },
    };

    if (argc < 6) {
        fprintf(stderr, "usage: live-domain URI DOMAIN OUTPUT SECONDS RING..."
                "\n");
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "-")) {
        r.guest.connect = argv[1];
        r.domain = argv[2];
    } else {
        r.guest.qmp = g_strdup(argv[2]);
    }
    ring_files = argv + 5;
    n_rings = (unsigned)argc - 5;
    r.metadata = json_object_new();
    if (starts) {
        return start(&r, argv[3]);
    }
    r.signal_fd = cli_open_signals();
    code = record_pt(&r);
    json_object_unref(r.metadata);
    close(r.signal_fd);
    return code;
}
