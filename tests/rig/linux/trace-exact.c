/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: trace-exact RUNS <SCRIPT
 *
 * SCRIPT is what "backtrail script" prints of a trace of a guest that has run a
 * program RUNS times; /walk has the branches that the program takes in user
 * mode.  Fails unless the trace has all of them, in order and with no other in
 * between, under one CR3 for each run.
 *
 * A script would take minutes to read so much in the emulated machine.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
};

static struct branch walk[MAX_WALK];
static size_t branches;
static struct space spaces[MAX_SPACES];
static size_t known;

static void read_walk(void)
{
    FILE *file = fopen("/walk", "r");
    unsigned long long from, to;

    while (file && branches < MAX_WALK &&
           fscanf(file, "%llx %llx", &from, &to) == 2) {
        walk[branches++] = (struct branch) { from, to };
    }
    if (!branches) {
        printf("/walk cannot be read\n");
        exit(1);
    }
    fclose(file);
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
    return &spaces[last];
}

/* Skips blanks and a field. */
static char *skip(char *at)
{
    at += strspn(at, " ");
    return at + strcspn(at, " \n");
}

int main(int argc, char **argv)
{
    size_t records = 0, users = 0, runs = 0;
    char line[512];

    if (argc != 2) {
        fprintf(stderr, "usage: trace-exact RUNS <SCRIPT\n");
        return 2;
    }
    read_walk();
    while (fgets(line, sizeof(line), stdin)) {
        char *at = skip(skip(skip(line)));
        unsigned long index = strtoul(skip(line), NULL, 10);
        uint64_t cr3 = strtoull(at, &at, 16);
        struct branch b;
        struct space *s;

        if (strncmp(at, " event ", 7) == 0) {
            continue;
        }
        b.from = strtoull(at, &at, 16);
        b.to = strtoull(at, &at, 16);
        records++;
        if ((b.from | b.to) >> 63) {
            continue;
        }
        users++;
        s = find_space(cr3);
        if (s->next == 0) {
            if (memcmp(&b, &walk[0], sizeof(b)) != 0) {
                continue;
            }
            s->begin = index;
        }
        if (memcmp(&b, &walk[s->next], sizeof(b)) != 0) {
            printf("record %zu is %llx %llx, and branch %zu of the program is "
                   "%llx %llx\n", records, (unsigned long long)b.from,
                   (unsigned long long)b.to, s->next,
                   (unsigned long long)walk[s->next].from,
                   (unsigned long long)walk[s->next].to);
            return 1;
        }
        if (++s->next == branches) {
            s->next = 0;
            printf("run %zu begins at record %lu, under CR3 %llx\n", ++runs,
                   s->begin, (unsigned long long)s->root);
        }
    }
    for (size_t i = 0; i < known; i++) {
        if (spaces[i].next) {
            printf("%llx has %zu branches of the program, not %zu\n",
                   (unsigned long long)spaces[i].root, spaces[i].next,
                   branches);
            return 1;
        }
    }
    printf("%zu runs of %zu branches are exact, among %zu of user mode in %zu "
           "address spaces and %zu in all\n", runs, branches, users, known,
           records);
    return runs != strtoul(argv[1], NULL, 0);
}
