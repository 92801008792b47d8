/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: trace-exact WALK RUNS [PIECES] <SCRIPT
 *
 * SCRIPT is what "backtrail script --events" prints of a trace of a guest that
 * has run a program RUNS times; WALK has the branches that the program takes in
 * user mode.  Fails unless the trace has all of them, in order and with no other
 * in between, under one CR3 for each run.
 *
 * Where records are missing, or time has jumped (a GAP event), and where the
 * trace begins late or ends early, there are pieces of runs: what is there of
 * each must be a piece of the walk.  There are PIECES of them, or none.  Either
 * number can be "any".
 */
#include "script.h"

#define MAX_WALK    65536
#define MAX_SPACES  4096

struct branch {
    uint64_t from, to;
};

/* A process can get the page tables of one that has ended. */
struct space {
    uint64_t root;
    size_t next;            /* branch of the walk; 0: outside of the program */
    unsigned long begin;    /* record that was its first */
    bool *maybe;            /* which could be next, if it is not known */
    size_t taken;           /* branches since then */
};

static struct branch walk[MAX_WALK];
static size_t branches;
static struct space spaces[MAX_SPACES];
static size_t known;
static size_t records, runs, pieces;

static void read_walk(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned long long from, to;

    while (file && branches < MAX_WALK &&
           fscanf(file, "%llx %llx", &from, &to) == 2) {
        walk[branches++] = (struct branch) { from, to };
    }
    if (!branches) {
        printf("%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
}

/* What was seen of a run ends here, if anything was. */
static void end_piece(const struct space *s)
{
    size_t taken = s->taken ? s->taken : s->next;

    if (taken) {
        printf("piece %zu, of %zu branches, begins at record %lu, under CR3 "
               "%llx\n", ++pieces, taken, s->begin,
               (unsigned long long)s->root);
    }
}

/* From here on this could be anywhere, in the program or not. */
static void lose(struct space *s)
{
    end_piece(s);
    s->next = s->taken = 0;
    if (!s->maybe) {
        s->maybe = malloc(branches + 1);
    }
    memset(s->maybe, true, branches + 1);
}

static struct space *find_space(uint64_t cr3)
{
    uint64_t root = cr3 & ~0xfffULL;
    static size_t last;

    if (last < known && spaces[last].root == root) {
        return &spaces[last];
    }
    for (last = 0; last < known; last++) {
        if (spaces[last].root == root) {
            return &spaces[last];
        }
    }
    if (known == MAX_SPACES) {
        printf("there are too many address spaces\n");
        exit(1);
    }
    spaces[known++].root = root;
    lose(&spaces[last]);    /* It may have begun before the trace. */
    return &spaces[last];
}

static bool same(const struct branch *a, const struct branch *b)
{
    return a->from == b->from && a->to == b->to;
}

static void __attribute__((noreturn))
fail(const struct branch *b, const char *why)
{
    printf("record %zu is %llx %llx, %s\n", records,
           (unsigned long long)b->from, (unsigned long long)b->to, why);
    exit(1);
}

static void end_run(struct space *s)
{
    s->next = 0;
    printf("run %zu begins at record %lu, under CR3 %llx\n", ++runs, s->begin,
           (unsigned long long)s->root);
}

/* It is not known where the run is.  Returns false if it is in none. */
static bool guess(struct space *s, const struct branch *b, unsigned long index)
{
    bool ended = s->maybe[0] || s->maybe[branches], found = false;

    for (size_t i = branches; i-- > 0;) {
        s->maybe[i + 1] = s->maybe[i] && same(b, &walk[i]);
        found |= s->maybe[i + 1];
    }
    s->maybe[0] = false;
    if (!found) {
        if (!ended) {
            fail(b, "and no piece of the program");
        }
        end_piece(s);
        s->taken = 0;
        free(s->maybe);
        s->maybe = NULL;
        return false;
    }
    if (!s->taken++) {
        s->begin = index;
    }
    if (s->taken == branches) {
        s->taken = 0;
        free(s->maybe);
        s->maybe = NULL;
        end_run(s);
    }
    return true;
}

static void follow(struct space *s, const struct branch *b,
                   unsigned long index)
{
    char why[64];

    if (s->maybe && guess(s, b, index)) {
        return;
    }
    if (s->next == 0) {
        if (!same(b, &walk[0])) {
            return;
        }
        s->begin = index;
    }
    if (!same(b, &walk[s->next])) {
        snprintf(why, sizeof(why), "and branch %zu of the program is %llx %llx",
                 s->next, (unsigned long long)walk[s->next].from,
                 (unsigned long long)walk[s->next].to);
        fail(b, why);
    }
    if (++s->next == branches) {
        end_run(s);
    }
}

static bool is(size_t count, const char *wanted)
{
    return strcmp(wanted, "any") == 0 || count == strtoul(wanted, NULL, 0);
}

int main(int argc, char **argv)
{
    size_t users = 0;
    struct line line;

    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: trace-exact WALK RUNS [PIECES] <SCRIPT\n");
        return 2;
    }
    read_walk(argv[1]);
    while (read_line(&line)) {
        struct branch b = { line.from, line.to };

        if (line.gap) {
            for (size_t i = 0; i < known; i++) {
                lose(&spaces[i]);
            }
        }
        if (line.event) {
            continue;
        }
        records++;
        if (!((b.from | b.to) >> 63)) {
            users++;
            follow(find_space(line.cr3), &b, line.index);
        }
    }
    for (size_t i = 0; i < known; i++) {
        end_piece(&spaces[i]);
    }
    printf("%zu runs of %zu branches are exact, and %zu pieces, among %zu of "
           "user mode in %zu address spaces and %zu in all\n", runs, branches,
           pieces, users, known, records);
    return !is(runs, argv[2]) || !is(pieces, argc == 4 ? argv[3] : "0");
}
