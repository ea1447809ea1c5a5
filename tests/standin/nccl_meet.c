/* nccl_meet.c: members of a communicator to be: each tells the leader its card, the
 * leader tells all of them to each. */
#include <stdlib.h>
#include <string.h>

#include "nccl_in.h"

struct nccl_rendezvous {
    nccl_card *card;          /* n */
    int n, leader, tag, here; /* here: cards that the leader has */
    bool leads, told, over;
    nccl_card mine;
    MPI_Request *req;   /* n */
    nccl_rendezvous *next; /* of those given up */
};

nccl_rendezvous *nccl_meet(uint64_t rendezvous, int n, int leader, const nccl_card *mine)
{
    nccl_rendezvous *m = calloc(1, sizeof *m);
    int self;
    nccl_mpi_thread();
    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    if (m) {
        m->card = calloc((size_t)n, sizeof *m->card);
        m->req = malloc((size_t)n * sizeof(MPI_Request));
    }
    if (!m || !m->card || !m->req) nccl_die("no memory");
    m->n = n;
    m->leader = leader;
    m->leads = self == leader;
    m->tag = nccl_tag(rendezvous * 2 + 1);
    m->mine = *mine;
    m->mine.rendezvous = rendezvous;
    m->mine.world = self;
    for (int i = 0; i < n; i++) m->req[i] = MPI_REQUEST_NULL;
    if (m->leads) {
        m->card[mine->rank] = m->mine;
        m->here = 1;
    } else {
        MPI_Isend(&m->mine, (int)sizeof m->mine, MPI_BYTE, leader, m->tag, MPI_COMM_WORLD,
                  &m->req[0]);
    }
    return m;
}

static void take_card(nccl_rendezvous *m)
{
    nccl_card c;
    MPI_Recv(&c, (int)sizeof c, MPI_BYTE, MPI_ANY_SOURCE, m->tag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    if (c.rendezvous != m->mine.rendezvous || c.n != m->n || c.rank < 0 || c.rank >= m->n)
        nccl_die("rank %d of %d came where communicators of %d are made: all members have to make "
                 "the same ones in the same order",
                 c.rank, c.n, m->n);
    if (m->card[c.rank].rendezvous) nccl_die("rank %d is there twice", c.rank);
    m->card[c.rank] = c;
    m->here++;
}

static void lead(nccl_rendezvous *m)
{
    for (int there = 1; m->here < m->n && there;) {
        MPI_Iprobe(MPI_ANY_SOURCE, m->tag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (there) take_card(m);
    }
    if (m->here < m->n || m->told) return;
    m->told = true;
    for (int i = 0; i < m->n; i++)
        if (m->card[i].world != m->leader)
            MPI_Isend(m->card, m->n * (int)sizeof *m->card, MPI_BYTE, m->card[i].world, m->tag,
                      MPI_COMM_WORLD, &m->req[i]);
}

static void follow(nccl_rendezvous *m)
{
    int there = 0;
    MPI_Iprobe(m->leader, m->tag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    if (!there) return;
    MPI_Recv(m->card, m->n * (int)sizeof *m->card, MPI_BYTE, m->leader, m->tag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    m->told = true;
}

const nccl_card *nccl_met(nccl_rendezvous *m)
{
    nccl_mpi_thread();
    int sent = 0;
    if (m->leads)
        lead(m);
    else if (!m->told)
        follow(m);
    if (!m->told) return NULL;
    MPI_Testall(m->n, m->req, &sent, MPI_STATUSES_IGNORE);
    return sent ? m->card : NULL;
}

/* Of one that was given up MPI may still use the memory. */
void nccl_rendezvous_end(nccl_rendezvous *m)
{
    static nccl_rendezvous *given_up;
    int sent = 0;
    if (!m) return;
    MPI_Testall(m->n, m->req, &sent, MPI_STATUSES_IGNORE);
    if (!sent) {
        m->next = given_up;
        given_up = m;
        return;
    }
    free(m->card);
    free(m->req);
    free(m);
}
