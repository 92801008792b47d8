/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What guests use, at random, against sums over all of them
 */

#include <string.h>

#include "scratch.h"
#include "service/quota.h"
#include "service/usage.h"

enum { GUESTS = 5, MEMBERS = 4, VCPUS = 3 };

#define MIB     (UINT64_C(1) << 20)

/* Guests of two processes and users, and their sessions */
struct scene {
    char *scratch;
    struct config config;
    struct host host;
    struct guest guests[GUESTS];
    struct guest_member members[GUESTS][MEMBERS];
    struct service_session sessions[GUESTS][MEMBERS];
};

static struct folder *make_folder(struct scene *s, const char *name)
{
    g_autofree char *path = g_build_filename(s->scratch, name, NULL);
    struct folder *folder = folder_open(path, NULL);

    g_assert_nonnull(folder);
    return folder;
}

static void add_file(struct scene *s, const char *name, size_t size)
{
    g_autofree char *path = g_build_filename(s->scratch, name, NULL);
    g_autofree char *bytes = g_malloc(size);

    memset(bytes, 'x', size);
    g_assert_true(g_file_set_contents(path, bytes, size, NULL));
}

static void begin(struct scene *s, unsigned guests)
{
    *s = (struct scene) {
        .scratch = scratch_new(),
        .config = { .names = 64 * MIB, .buffer_size = 3 * MIB },
    };
    s->host = (struct host) {
        .config = &s->config, .folder = make_folder(s, "traces"),
        .guests = g_ptr_array_new(),
    };
    for (unsigned i = 0; i < guests; i++) {
        g_autofree char *name = g_strdup_printf("traces/vm%u", i);

        s->guests[i] = (struct guest) {
            .host = &s->host, .vcpus = 1, .folder = make_folder(s, name),
            .members = g_ptr_array_new(),
        };
        g_ptr_array_add(s->host.guests, &s->guests[i]);
    }
}

static void end(struct scene *s)
{
    for (unsigned i = 0; i < s->host.guests->len; i++) {
        folder_free(s->guests[i].folder);
        g_ptr_array_unref(s->guests[i].members);
    }
    folder_free(s->host.folder);
    g_ptr_array_unref(s->host.guests);
    scratch_remove(s->scratch);
}

/* A session of guest @i that has written so many bytes */
static void add_session(struct scene *s, unsigned i,
                        enum service_session_state state, uint64_t bytes)
{
    unsigned k = s->guests[i].members->len;

    s->sessions[i][k] = (struct service_session) {
        .state = state, .past.bytes = bytes,
    };
    s->members[i][k] = (struct guest_member) {
        .session = &s->sessions[i][k],
    };
    g_ptr_array_add(s->guests[i].members, &s->members[i][k]);
}

static bool admitted(const struct guest *g, enum service_error code,
                     const char *why)
{
    g_autoptr(GError) error = NULL;
    bool ok = usage_admit(g, &error);

    if (ok) {
        g_assert_no_error(error);
    } else {
        g_assert_error(error, SERVICE_ERROR, (gint)code);
        g_assert_nonnull(strstr(error->message, why));
    }
    return ok;
}

static bool is_admitted(const struct guest *g)
{
    return admitted(g, SERVICE_ERROR_LIMIT, "");
}

/* Without limits, all may start sessions, but not when the service ends. */
static void test_unlimited(void)
{
    struct scene s;

    begin(&s, 2);
    for (unsigned i = 0; i < MEMBERS; i++) {
        g_assert_true(is_admitted(&s.guests[0]));
        add_session(&s, 0, SERVICE_SESSION_ACTIVE, UINT64_MAX / 8);
    }
    s.host.ending = true;
    g_assert_false(admitted(&s.guests[1], SERVICE_ERROR_COMMAND,
                            "about to end"));
    end(&s);
}

/* Which guests count with one: 0: of its process, 1: of its user, 2: all */
static bool counts(const struct scene *s, unsigned i, unsigned k,
                   unsigned whose)
{
    const struct guest_link *a = &s->guests[i].link, *b = &s->guests[k].link;

    switch (whose) {
    case 0:
        return i == k || (a->process && b->process && a->process[0] &&
                          !strcmp(a->process, b->process));
    case 1:
        return a->uid == b->uid;
    default:
        return true;
    }
}

/* With a buffer for each vCPU and names, once for all sessions of a guest */
static uint64_t memory_of(const struct scene *s, unsigned i, unsigned n)
{
    unsigned vcpus = s->guests[i].vcpus;
    uint64_t sum = n ? 64 * MIB : 0;

    for (unsigned v = 0; n && v < vcpus; v++) {
        sum += 3 * MIB;
    }
    for (; n; n--) {
        sum += service_session_memory(vcpus);
    }
    return sum;
}

/* Is there room for one more session of guest @i, by the limits of @whose? */
static bool has_room(const struct scene *s, unsigned i, unsigned whose,
                     const struct config_limits *l)
{
    uint64_t sessions = 1, memory = 0;

    for (unsigned k = 0; k < s->host.guests->len; k++) {
        unsigned n = s->guests[k].members->len;

        if (counts(s, i, k, whose)) {
            sessions += n;
            memory += memory_of(s, k, n + (k == i));
        }
    }
    return (!l->sessions || sessions <= l->sessions) &&
           (!l->memory || memory <= l->memory);
}

static void shuffle(struct scene *s)
{
    static char *const processes[] = { NULL, (char *)"", (char *)"1 2",
                                       (char *)"3 4" };

    for (unsigned i = 0; i < GUESTS; i++) {
        struct guest *g = &s->guests[i];

        g->vcpus = g_test_rand_int_range(1, VCPUS + 1);
        g->link.process = processes[g_test_rand_int_range(0, 4)];
        g->link.uid = g_test_rand_int_range(0, 2);
        g_ptr_array_set_size(g->members, 0);
        for (int n = g_test_rand_int_range(0, MEMBERS); n; n--) {
            add_session(s, i, SERVICE_SESSION_ACTIVE, 0);
        }
    }
}

/* A limit that is about as much as there is, or exactly that */
static struct config_limits random_limits(const struct scene *s)
{
    struct config_limits l = { 0 };

    if (g_test_rand_bit()) {
        l.sessions = g_test_rand_int_range(1, GUESTS * MEMBERS);
    } else {
        for (unsigned i = 0; i < GUESTS; i++) {
            if (g_test_rand_bit()) {
                l.memory += memory_of(s, i, g_test_rand_int_range(0, MEMBERS));
            }
        }
        l.memory += l.memory ? g_test_rand_int_range(-1, 2) : 0;
    }
    return l;
}

static void test_admit(void)
{
    unsigned refused = 0, n = 0;
    struct scene s;

    begin(&s, GUESTS);
    for (unsigned round = 0; round < 4000; round++) {
        const struct config_limits none = { 0 };
        struct config_limits l, share;
        bool each = g_test_rand_bit();
        unsigned i = g_test_rand_int_range(0, GUESTS);

        shuffle(&s);
        l = random_limits(&s);
        /* One user leaves a quarter to others. */
        share = (struct config_limits) {
            .sessions = quota_share(l.sessions),
            .memory = quota_share(l.memory),
        };
        s.config.each = each ? l : none;
        s.config.all = each ? none : l;
        g_assert_cmpint(is_admitted(&s.guests[i]), ==,
                        each ? has_room(&s, i, 0, &l) :
                        has_room(&s, i, 2, &l) && has_room(&s, i, 1, &share));
        refused += !is_admitted(&s.guests[i]);
        n++;
    }
    /* It is neither always the one nor the other. */
    g_assert_cmpuint(refused, >, n / 10);
    g_assert_cmpuint(refused, <, n - n / 10);
    end(&s);
}

/* The traces of a guest, and those of all */
static void test_disk(void)
{
    struct scene s;

    begin(&s, 2);
    add_file(&s, "traces/vm0/a.btrail", 100000);
    s.config.each.disk = 90000;
    g_assert_false(admitted(&s.guests[0], SERVICE_ERROR_LIMIT, "remove some"));
    g_assert_nonnull(usage_guest_exceeded(&s.guests[0]));
    g_assert_true(is_admitted(&s.guests[1]));
    g_assert_null(usage_guest_exceeded(&s.guests[1]));
    s.config.each.disk = 1000000;
    g_assert_true(is_admitted(&s.guests[0]));
    g_assert_null(usage_guest_exceeded(&s.guests[0]));
    s.config.each.disk = 0;
    s.config.all.disk = 90000;
    g_assert_false(admitted(&s.guests[1], SERVICE_ERROR_LIMIT, "remove some"));
    g_assert_null(usage_guest_exceeded(&s.guests[1]));
    s.config.all.disk = 1000000;
    g_assert_true(is_admitted(&s.guests[1]));
    s.config.keep_free = UINT64_MAX;
    g_assert_false(admitted(&s.guests[1], SERVICE_ERROR_LIMIT, "stay free"));
    end(&s);
}

/* The session that is to end; -1: none */
static void check_exceeded(struct scene *s, bool exceeded, int guest,
                           unsigned member)
{
    struct guest *g = &s->guests[0];
    struct guest_member *m = &s->members[0][0];
    const char *why = usage_all_exceeded(&s->host, &g, &m);

    g_assert_cmpint(!!why, ==, exceeded);
    if (guest < 0) {
        g_assert_null(g);
        g_assert_null(m);
    } else {
        g_assert_true(g == &s->guests[guest]);
        g_assert_true(m == &s->members[guest][member]);
    }
}

/* The largest one that runs ends, and all of them where the disk is full. */
static void test_exceeded(void)
{
    uint64_t space;
    struct scene s;

    begin(&s, 3);
    space = folder_space(s.host.folder);
    g_assert_cmpuint(space, >, MIB);
    add_file(&s, "traces/vm1/a.btrail", 100000);
    check_exceeded(&s, false, -1, 0);
    s.config.all.disk = 90000;
    /* Nobody writes. */
    check_exceeded(&s, false, -1, 0);
    add_session(&s, 0, SERVICE_SESSION_FINISHING, 1000);
    add_session(&s, 1, SERVICE_SESSION_STARTING, 1000);
    check_exceeded(&s, false, -1, 0);
    add_session(&s, 1, SERVICE_SESSION_ACTIVE, 7);
    check_exceeded(&s, true, 1, 1);
    add_session(&s, 2, SERVICE_SESSION_ACTIVE, 9);
    add_session(&s, 2, SERVICE_SESSION_ACTIVE, 8);
    check_exceeded(&s, true, 2, 0);
    add_session(&s, 0, SERVICE_SESSION_ACTIVE, 10);
    check_exceeded(&s, true, 0, 1);
    s.config.all.disk = 0;
    check_exceeded(&s, false, -1, 0);
    /* Less is free than must stay so, but not much less */
    s.config.keep_free = space + space / 2;
    check_exceeded(&s, true, 0, 1);
    s.config.keep_free = 3 * space;
    check_exceeded(&s, true, -1, 0);
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/usage/unlimited", test_unlimited);
    g_test_add_func("/usage/admit", test_admit);
    g_test_add_func("/usage/disk", test_disk);
    g_test_add_func("/usage/exceeded", test_exceeded);
    return g_test_run();
}
